"""What agents and the daemon say to each other."""
