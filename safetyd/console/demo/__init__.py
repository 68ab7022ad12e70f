"""`safetyd demo`: scenes with real agents and a temporary daemon.

`demo` has the command.
"""
