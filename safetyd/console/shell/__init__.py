"""`safetyd shell`: shows how a command is analysed, and measures files of commands.

The command is in `read_shell`.
"""
