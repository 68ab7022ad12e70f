"""The one object that joins the core, and the lines of the journal.

Others import `Engine`, `Checkpoint` and `journal_lines`.
"""
