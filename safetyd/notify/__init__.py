"""How people are told: a message put into words, channels that send it, links that answer it.

Others import the notifier, `channel`, `message`, `compose` and `links`; a channel's own folder is
for the registry, the preview and the desktop helper.
"""
