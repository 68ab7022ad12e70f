"""Access: keys of agents and operators, HTTP tokens, and browser sessions of the control room.

The commands are `agent` and `operator` (`manage_keys`), `open` and `sessions` (`control_room`).
"""
