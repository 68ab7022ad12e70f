"""The commands: read the options, ask the daemon or the files, print what came of it.

`cli` imports the module of the command that was typed.
"""
