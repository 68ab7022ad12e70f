"""Snapshots and backups: `retention`, `backup` and `restore`.

`command_table.py` names these commands, and `cli.py` loads them.
"""
