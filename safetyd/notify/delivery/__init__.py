"""Delivery: each channel has a worker with a queue, retries, rate limits and a circuit breaker.

The notifier uses `Dispatch`, which also reports the state of channels. A channel only sends
messages and classifies its errors.
"""
