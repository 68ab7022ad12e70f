"""What agents reach: proposals, reports, permissions and claims, and the stop that holds them.

Others import `emergency_stop`, the file that is kept for it, and the structs of configuration.
"""
