"""Words and paths of agents: folded to one form, searched by patterns, matched by globs.

Guards import it, and whoever shows an agent's words to somebody.
"""
