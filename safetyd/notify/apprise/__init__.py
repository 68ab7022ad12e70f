"""Chats through apprise, which runs in its own process.

`channel` is the table in the configuration; other packages import nothing else from here.
"""
