"""How people are notified: a message in words, channels that send it, links that answer it.

The daemon has the notifier and reads `channel_config` and `address_book`; the web takes `links`. A
folder with a `channel.py` is a channel, found by `channel_config`; nothing else names it.
"""
