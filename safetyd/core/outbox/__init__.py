"""Who is told what, when, on which channel; and again, and whom else, if nobody answers.

`Outbox` is the actor. Others import `Delivery` and ask the outbox about it.
"""
