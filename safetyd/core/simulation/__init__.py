"""What would have been decided: the record of the past under other rules, with the engine itself.

Others import `Simulation` and its report, and `trials`.
"""
