"""The review screen: the list of pending requests, the card of one, and keys to answer.

Only this package imports textual.
"""
