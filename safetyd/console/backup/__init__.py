"""Snapshots and backups: `retention`, `backup` and `restore`.

The commands are in `show_retention` and `backup_commands`.
"""
