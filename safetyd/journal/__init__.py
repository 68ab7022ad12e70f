"""From a message to its durable effect: it waits in the mailbox, is decided, written, then told.

Others import the mailbox and its envelopes; `audit` and `transcript_files` to read them.
"""
