"""How the daemon is seen from outside: metrics, log, SafetyEvents on the bus.

Others import `Metrics`, to count; the daemon feeds the rest with events.
"""
