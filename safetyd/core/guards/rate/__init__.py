"""Rate limits: token buckets for all agents, each agent and each model.

`rate` is the guard. Other packages import its configuration.
"""
