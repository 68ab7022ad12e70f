"""The one object that joins the core, and the lines of the journal.

The commit loop and recovery import `Engine`; others its state, `Checkpoint` and `journal_lines`.
"""
