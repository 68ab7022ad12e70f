"""Telegram: messages with buttons, from a bot that uses long polling and needs no public URL.

Other packages import only `channel`, which has the settings of this channel.
"""
