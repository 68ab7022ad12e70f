"""What `safetyd doctor` looks at, and what it says to do.

`doctor` is the command.
"""
