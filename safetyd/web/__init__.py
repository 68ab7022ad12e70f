"""The HTTP server: health, metrics, the API, the control room, decision links and webhooks.

Only the daemon imports this package. The daemon uses `Site`, the gateway to the
engine, and the settings.
"""
