"""What was decided: `decisions` lists it, `explain` says why, `report` counts it by day.

`list_decisions`, `explain_decision` and `show_report` are the commands.
"""
