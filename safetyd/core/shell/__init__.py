"""Finds out what shell commands would do, without running anything.

`judge` analyses a command, `shape` finds similar commands, and `programs` is the table of programs.
Other packages import only these modules and the structs in `reading`.
"""
