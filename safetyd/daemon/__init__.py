"""The configuration, and the daemon built from it: `app` connects, `lifecycle` starts and ends.

Only the console imports it: to run a daemon, and to check a configuration.
"""
