"""Configuration, and everything put together from it: `app` joins, `lifecycle` starts and ends.

Only the console imports it: to run it, and to check a configuration.
"""
