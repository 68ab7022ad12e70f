"""The guards, and the chain in which they judge a proposal (`guard_chain.py`).

The id of a rule starts with the name of its guard's file or folder. Other packages import the
configuration structs, the state that guards show, and the chain.
"""
