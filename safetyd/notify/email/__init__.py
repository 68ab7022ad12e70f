"""Mail: the text and HTML of a message, its submission to a server, and replies to it.

`channel` is the table in the configuration. Only `smtp` imports aiosmtplib.
"""
