"""HTTP: health, metrics, the API, decision links, Twilio's calls.

The daemon imports `Site` and the configuration; nobody else imports anything.
"""
