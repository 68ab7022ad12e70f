"""The review screen: the list of pending requests, the card of one, and keys to answer.

`open_review` is the command. Only this package imports textual.
"""
