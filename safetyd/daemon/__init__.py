"""Configuration, and everything put together from it."""
