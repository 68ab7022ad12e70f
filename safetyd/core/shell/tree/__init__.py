"""The syntax tree of a command: parsing it, and reading nodes of one kind.

`syntax` parses; the others read nodes. Only the modules that walk the tree import these.
"""
