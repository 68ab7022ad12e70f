"""Push messages to phones through an ntfy server.

`channel` is the table in the configuration; others import nothing else from here.
"""
