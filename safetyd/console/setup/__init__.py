"""`safetyd init`: its questions, and the configuration that it writes.

`write_config` has the command.
"""
