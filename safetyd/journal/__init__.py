"""From a message to its durable effect: mailbox, decision, journal, reply.

Other packages import the mailbox and its envelopes, and read audit files and transcripts.
"""
