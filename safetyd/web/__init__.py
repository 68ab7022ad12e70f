"""HTTP: health, metrics, the API, decision links, the hooks of channels.

The daemon imports `Site`, the gateway to the engine and the configuration; nobody else anything.
"""
