"""The tree of a command: how it is made, and what its nodes say by themselves.

`syntax` makes it; `assignments`, `redirections` and `recursion` read nodes of one kind. Only the
modules that walk the tree import these.
"""
