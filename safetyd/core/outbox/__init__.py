"""Notifications: which recipients get them, on which channels and when, with reminders.

`Outbox` is the actor; the other classes are its parts. Other packages import `Delivery` and the
steps of `escalation`.
"""
