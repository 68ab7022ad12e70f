"""What is kept of every day, and for how long: snapshots, weekly archives, backups.

The daemon has `snapshot_keeper` and reads `history_config`; the commands take `retention`, `backup`
and `restoring`. Everything here blocks and is called in worker threads.
"""
