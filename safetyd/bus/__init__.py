"""NATS: subjects, what travels on them, connections, keys, limits, and the embedded server.

Others import subjects, codec, publisher, keyring and the limits; `nats_client` and the server only
the journal, the daemon and the console.
"""
