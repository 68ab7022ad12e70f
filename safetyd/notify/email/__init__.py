"""Mail: the text and HTML of a message, and its submission to a server.

`channel` is the table in the configuration. aiosmtplib is imported by `smtp` alone, when it sends.
"""
