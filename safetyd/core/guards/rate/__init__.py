"""How often agents may propose: buckets of everybody, each agent and each model.

`rate` is the guard. Others import its configuration.
"""
