"""Delivery: queues, retries and a breaker for each channel."""
