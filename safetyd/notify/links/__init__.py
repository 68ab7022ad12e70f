"""Decision links: their signing keys, their tokens, the sent links, and the issuer.

The notifier uses the issuer; the web server looks up tokens.
"""
