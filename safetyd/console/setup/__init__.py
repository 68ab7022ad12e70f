"""`safetyd init`: its questions, and the configuration that it writes.

The command is in `write_config`.
"""
