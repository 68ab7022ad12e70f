"""What an action says: dangerous words, secrets, loops, confidence, and what is safetyd's own.

`gate` is the guard, `safety_gate` the same as a library. Others import their configuration.
"""
