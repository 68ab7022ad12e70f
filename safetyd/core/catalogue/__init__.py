"""The catalogue of events: severity, sentence, notice and alert of each, in one place.

An entry also says whether the engine derives the event from others. Entries are grouped by subject,
as the events are; `catalogue.py` joins them.
"""
