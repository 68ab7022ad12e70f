"""NATS: subjects, wire format, connections, keys, limits, and the embedded server.

Other packages import subjects, codec, publisher, keyring and the limits. Only the journal, the
daemon and the console import `nats_client` and the server.
"""
