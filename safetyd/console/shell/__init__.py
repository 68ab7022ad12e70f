"""What `safetyd shell` does: it shows how a command is read, and measures files of commands.

`read_shell` is the command.
"""
