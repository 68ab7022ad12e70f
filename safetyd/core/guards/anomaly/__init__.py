"""Anomaly detection: one detector for each kind of unusual behaviour.

`anomaly` is the guard. Other packages import its configuration and the levels in `findings`.
"""
