"""What is told of all that happens: SafetyEvents, transcripts of sessions, summaries.

The engine has these actors. Others import nothing but what they read in the journal.
"""
