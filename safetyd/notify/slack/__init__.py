"""Slack: messages with buttons, from an app that uses Socket Mode and needs no public URL.

Other packages import only `channel`, which has the settings of this channel.
"""
