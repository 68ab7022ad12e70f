"""Rehearsals: a story of a day is played on virtual time, and its messages are counted.

The console prints the result. A rehearsal uses the real configuration, engine, outbox, delivery and
texts; only the connections of channels are replaced. Nothing is sent and nothing is stored.
"""
