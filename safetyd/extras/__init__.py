"""Optional features: file history, backups, export to PostgreSQL, daily reports.

No feature imports another. `daemon/extras/` connects each of them to a running daemon.
"""
