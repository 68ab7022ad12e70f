"""Chats through apprise, which runs in its own process.

`channel` is the table in the configuration; others import nothing else from here.
"""
