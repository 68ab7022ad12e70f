"""The engine, which connects all parts of the core, and the format of the journal.

The commit loop and recovery import `Engine`. Other packages import its state, `Checkpoint` and
`journal_lines`.
"""
