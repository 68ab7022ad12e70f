"""Decisions: `decisions` lists them, `explain` shows why, `report` counts them by day.

The commands are in `list_decisions`, `explain_decision` and `show_report`.
"""
