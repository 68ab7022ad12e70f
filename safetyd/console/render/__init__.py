"""Text for the terminal: pure functions that turn answers into lines.

All commands, `doctor`, the demo and the review screen use them.
"""
