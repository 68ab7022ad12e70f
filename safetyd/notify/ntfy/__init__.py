"""Push messages to phones through an ntfy server.

`channel` is the table in the configuration; other packages import nothing else from here.
"""
