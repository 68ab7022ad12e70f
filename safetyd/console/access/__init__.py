"""Who may come in: the keys of agents and people, and the browsers of the control room.

`command_table.py` names these commands, and `cli.py` loads them.
"""
