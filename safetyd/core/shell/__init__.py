"""Analysis of shell commands: what they would do, without running anything.

`judge` analyses a command, `shape` finds similar ones, `programs` is the table. Others import these
and the structs in `reading`.
"""
