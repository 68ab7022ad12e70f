"""Decisions: `decisions` lists them, `explain` shows why, `report` counts them by day.

`list_decisions`, `explain_decision` and `show_report` are the commands.
"""
