"""Notifications: the messages, the channels that send them, and the links to answer them.

The daemon uses `notifier`, `channel_config` and `address_book`; the web server uses `links`. A
folder with a `channel.py` is a channel. `channel_config` finds it; no other module imports it.
"""
