"""The screen of `safetyd review`: a list, a card, a few keys.

`open_review` is the command; textual is imported here alone.
"""
