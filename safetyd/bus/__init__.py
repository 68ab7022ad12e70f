"""NATS: subjects, wire format, connections, keys, limits, and the embedded server.

Only the journal, the daemon and the console import `nats_client` and the server.
"""
