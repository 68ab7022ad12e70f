"""What agents reach: proposals, reports, permissions and claims, and the stop that holds them.

Others import `emergency_stop` and the structs of configuration; the rest is for the daemon alone.
"""
