"""NATS: subjects, what travels on them, connections, keys, and the embedded server.

Others import subjects, codec, publisher, keyring and connections; `nats_client` only the
journal, the daemon and the console.
"""
