"""The catalogue of events: what is said about each of them, once.

An entry says how severe an event is, its sentence, whether people are notified, its alert, and
whether the engine makes it of other events. Entries are listed by subject, as the events are;
`catalogue.py` joins them and answers for everybody else.
"""
