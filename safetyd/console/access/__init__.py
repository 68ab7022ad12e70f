"""Access: keys of agents, operators and relays, HTTP tokens, browser sessions of the control room.

The commands are `agent` and `operator` (`manage_keys`), `relay` (`manage_relays`), `open` and
`sessions` (`control_room`).
"""
