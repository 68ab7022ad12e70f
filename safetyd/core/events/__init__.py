"""All events, by subject. The journal consists of them.

Every package may import from here. New fields need a default.
"""
