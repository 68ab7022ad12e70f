"""Rules tried before they hold: on the past with `simulate`, on examples with `test`.

`try_rules` and `run_policy_tests` are the commands.
"""
