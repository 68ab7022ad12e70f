"""The control room: pages on which operators watch agents, answer requests and stop everything.

Templates in `web/templates/room` render the answers to queries.
"""
