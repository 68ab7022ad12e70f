"""Who is told what, when, on which channel; and again, and whom else, if nobody answers.

`Outbox` is the actor and has all the others as its parts. Others import `Delivery`, and the
steps of `escalation` to show them.
"""
