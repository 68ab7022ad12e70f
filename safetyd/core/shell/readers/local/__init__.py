"""Readers of programs for the files, texts and processes of this machine.

`readers` imports the functions and gives them the names that rows have for them. Nobody else does.
"""
