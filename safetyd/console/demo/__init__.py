"""`safetyd demo`: scenes with real agents and a temporary daemon.

The command is in `demo`.
"""
