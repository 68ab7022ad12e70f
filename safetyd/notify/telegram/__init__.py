"""Telegram: messages with buttons, from a bot that uses long polling and needs no public URL.

`channel` is the table in the configuration; other packages import nothing else from here.
"""
