"""Text: of agents, folded, searched and matched by globs; for people, with nothing hidden.

Guards import it, and whoever shows an agent's words or a time to somebody.
"""
