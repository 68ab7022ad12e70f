"""What is unusual for an agent, found by one detector for each way to be unusual.

`anomaly` is the guard. Others import its configuration in `agent_profile` and `presence`.
"""
