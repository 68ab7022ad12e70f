"""Delivery: for each channel a worker with a queue, retries, rates and a breaker.

The notifier imports `Dispatch`. A channel only sends, and sorts its errors.
"""
