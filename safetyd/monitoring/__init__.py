"""Metrics, log, and SafetyEvents on the bus."""
