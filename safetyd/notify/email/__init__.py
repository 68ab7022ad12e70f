"""Mail: the text and the page of a message, and how it is submitted.

`channel` is the table in the configuration. aiosmtplib is imported by `smtp` alone, when it sends.
"""
