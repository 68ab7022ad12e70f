"""Money: what is spent, set aside and left, by chain, session, day, agent, model and party.

`budget` is the guard. Others import its configuration, and `limits` to show how a budget stands.
"""
