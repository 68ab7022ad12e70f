"""What safetyd does besides deciding: file history, backups, export to PostgreSQL, daily reports.

No extra imports another. `daemon/extras/` connects each of them to a running daemon.
"""
