"""The core: it takes events and returns events, without await, clock, log or I/O.

Other packages import messages, events and text, `Engine`, the configuration structs, and the state
that they show.
"""
