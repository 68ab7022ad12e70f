"""Where events go besides the journal: how far that is, whether it is all there, and loading it.

`manage_outlets` has the commands.
"""
