"""Everything that can happen, by subject; the journal is made of these.

Everybody may import everything here. What is added gets a default and a place in `journal_lines`.
"""
