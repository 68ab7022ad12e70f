"""Reads the configuration and connects the parts of the daemon.

`app` connects the parts, `lifecycle` starts and stops them. Only the console imports this package.
"""
