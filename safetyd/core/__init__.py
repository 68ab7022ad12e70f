"""The rules: events in, events out. No await, no clock, no log, no I/O."""
