"""Chats through apprise, which runs in its own process.

Other packages import only `channel`, which has the settings of this channel.
"""
