"""Decision links."""
