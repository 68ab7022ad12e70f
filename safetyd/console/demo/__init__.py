"""What `safetyd demo` shows: scenes with real agents and a daemon of their own.

`demo` is the command.
"""
