"""Mail: the text and HTML of a message, and its submission to a server.

`channel` is the table in the configuration. Only `smtp` imports aiosmtplib.
"""
