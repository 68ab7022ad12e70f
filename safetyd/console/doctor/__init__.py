"""The checks of `safetyd doctor`, and what to do about each problem.

`doctor` is the command.
"""
