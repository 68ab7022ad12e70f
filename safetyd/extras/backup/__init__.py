"""Snapshots, weekly archives and backups, and how long each is retained.

The daemon uses `daily_snapshots` and `history_config`; the commands use `retention`, `backup` and
`restoring`. Everything here blocks and runs in worker threads.
"""
