"""What agents and the daemon say to each other, and what a decision is made of.

Everybody may import everything here; the client imports nothing else of the core.
"""
