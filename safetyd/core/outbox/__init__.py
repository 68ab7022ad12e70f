"""Notifications: recipients, channels, times, reminders and escalation.

`Outbox` is the actor; the other classes are its parts. Other packages import `Delivery` and the
steps of `escalation`.
"""
