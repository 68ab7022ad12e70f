"""How people are told: a message put into words, channels that send it, links that answer it.

The daemon has the notifier and reads `channel_config` and `address_book`; the web takes `links` and
`sms`. A channel's own folder is for the registry and the preview, and for the desktop helper.
"""
