"""HTTP: health, metrics, the API, decision links, the hooks of channels.

Only the daemon imports from here: `Site`, the gateway to the engine and the configuration.
"""
