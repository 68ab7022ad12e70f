"""From a message to its durable effect."""
