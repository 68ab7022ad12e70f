"""Commands: each reads its options, asks the daemon or reads files, and prints the result.

`cli` imports only the module of the command that the user typed.
"""
