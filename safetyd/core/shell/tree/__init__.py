"""The syntax tree of a command.

`syntax` parses a command. The other modules each handle one kind of node. Only modules that walk
the tree import them.
"""
