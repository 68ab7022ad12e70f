"""HTTP: health, metrics, the API, decision links, Twilio's calls.

The daemon imports `Site`, the gateway to the engine and the configuration; nobody else anything.
"""
