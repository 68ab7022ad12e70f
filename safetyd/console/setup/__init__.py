"""What `safetyd init` asks, and the configuration that it writes for this machine.

`write_config` has the command.
"""
