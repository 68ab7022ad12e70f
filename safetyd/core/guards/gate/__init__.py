"""The gate: dangerous words, secrets, loops, confidence, and resources that belong to safetyd.

`gate` is the guard, and `safety_gate` offers it as a library. Other packages import the
configuration.
"""
