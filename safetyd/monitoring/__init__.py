"""Metrics, the log, and SafetyEvents on the bus.

Other packages import `Metrics` to count. The daemon passes events to the other modules.
"""
