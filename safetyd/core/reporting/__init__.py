"""SafetyEvents, transcripts and summaries."""
