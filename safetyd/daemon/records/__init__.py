"""What is kept of all that happens, joined to a daemon: transcripts, snapshots, history, outlets.

`daemon/app.py` makes these parts, hands them what is durable, and starts them.
"""
