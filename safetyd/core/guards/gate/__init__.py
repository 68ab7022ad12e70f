"""The gate: dangerous words, secrets, loops, confidence, and resources that belong to safetyd.

`gate` is the guard, `safety_gate` the same as a library. Other packages import the configuration.
"""
