"""The catalogue of events: the severity, sentence, notice and alert of each event.

An entry also says whether the engine derives the event from other events. Entries are grouped by
subject, like the events, and `catalogue.py` joins them.
"""
