"""What people with a key reach."""
