"""Try rules before you use them: on past decisions with `simulate`, on examples with `test`.

The commands are in `try_rules` and `run_policy_tests`.
"""
