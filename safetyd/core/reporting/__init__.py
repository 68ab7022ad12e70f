"""What is told of all that happens: SafetyEvents, transcripts of sessions, summaries.

The engine has these actors. Others import `session_summary`, to put a session into words.
"""
