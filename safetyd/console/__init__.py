"""The command line. A command's module is imported only when the command runs, so help is fast.

`command_table` lists every command, and `cli` runs one. No other package imports the console.
"""
