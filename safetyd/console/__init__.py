"""The command line. What a command needs is imported when it is used, so that help is quick.

`command_table` has every command, `cli` runs it. Nobody imports the console.
"""
