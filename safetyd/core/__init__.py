"""The rules: events in, events out. No await, no clock, no log, no I/O.

Others import messages, events and text, `Engine`, and the structs of configuration and of state to
show.
"""
