"""What kind of action this is."""
