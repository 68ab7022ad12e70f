"""Budgets: money spent and reserved, by chain, session, day, agent and model.

`budget` is the guard. Other packages import its configuration, and `limits` to show a budget.
"""
