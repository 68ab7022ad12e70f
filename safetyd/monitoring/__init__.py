"""Metrics, the log, and SafetyEvents on the bus.

Other packages import `Metrics` to count; the daemon passes events to the rest.
"""
