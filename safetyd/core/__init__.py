"""The rules: events in, events out. No await, no clock, no log, no I/O.

Others import the messages, the events, `Engine`, and the structs of configuration and state.
"""
