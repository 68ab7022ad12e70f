"""Delivery: for each channel a worker with a queue, retries, rates and a breaker.

The notifier has `Dispatch`, which tells how channels do. A channel only sends, and sorts its
errors.
"""
