"""Views of the engine's state for operators, limited to what fits into a message.

They do not change the state.
"""
