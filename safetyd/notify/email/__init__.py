"""Mail: the text and the page of a message, and how it is submitted.

The registry opens the channel. aiosmtplib is imported by `smtp` alone, when it sends.
"""
