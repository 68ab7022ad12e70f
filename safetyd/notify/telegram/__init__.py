"""Telegram: messages with buttons, by a bot that asks for answers (long polling, no public URL).

`channel` is the table in the configuration; others import nothing else from here.
"""
