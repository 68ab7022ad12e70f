"""Everything that can happen, by subject."""
