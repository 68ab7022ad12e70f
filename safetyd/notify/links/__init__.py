"""Decision links: keys that sign them, tokens, what was sent, and who makes them.

The notifier has the issuer; the web asks what a token opens.
"""
