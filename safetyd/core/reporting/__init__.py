"""Reporting: SafetyEvents, session transcripts and summaries, and records for operators.

The engine runs these actors. Other packages import `session_summary` to describe a session.
"""
