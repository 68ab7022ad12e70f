"""Who is told what, when, on which channel."""
