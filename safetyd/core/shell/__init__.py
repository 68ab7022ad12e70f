"""Shell commands: what they would do, without running anything.

`judge` reads a command; `shape` says which others are of its kind; `programs` is the table. Others
import these and the structs in `reading`.
"""
