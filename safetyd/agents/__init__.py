"""What agents reach."""
