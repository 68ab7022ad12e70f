"""The messages between agents and the daemon, and the parts of a decision.

Every package may import from here. The client imports nothing else of the core.
"""
