"""Simulation: replay the record through the engine under other rules, and compare decisions.

Other packages import `Simulation`, its report and `trials`.
"""
