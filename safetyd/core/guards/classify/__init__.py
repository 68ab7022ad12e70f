"""Classification: the table of action types, and the operator's rules on top of it.

`classify` is the guard. Other packages import the configuration checks in `rule_checks`.
"""
