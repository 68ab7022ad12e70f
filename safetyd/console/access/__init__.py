"""Access: keys of agents and operators, tokens for HTTP, and browsers of the control room.

`command_table.py` names these commands, and `cli.py` loads them.
"""
