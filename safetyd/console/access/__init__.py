"""Access: keys of agents and operators, tokens for HTTP, and browsers of the control room.

The commands are `agent` and `operator` (`manage_keys`), `open` and `sessions` (`control_room`).
"""
