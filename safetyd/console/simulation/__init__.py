"""Try rules before you use them: on the recorded past with `simulate`, on examples with `test`.

`try_rules` and `run_policy_tests` have the commands.
"""
