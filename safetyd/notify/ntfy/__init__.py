"""Push messages to phones through an ntfy server.

Other packages import only `channel`, which has the settings of this channel.
"""
