"""What is unusual for an agent, found by one detector for each way to be unusual.

`anomaly` is the guard. Others import its configuration, and the levels of `findings` to show them.
"""
