"""What single guards know: money, limits, breakers, anomalies, types of action.

The runner of commands answers with these, and other views show parts of them.
"""
