"""The command line. What a command needs is imported when it is used, so that help is quick.

`cli` has the table of commands. Nobody imports the console.
"""
