"""What was decided: `decisions` lists it, and `explain` says why.

`list_decisions` and `explain_decision` are the commands.
"""
