"""What is unusual for an agent."""
