"""What kind of action this is: the table of types, and the operator's rules over it.

`classify` is the guard. Others import the checks of a configuration in `rule_checks`.
"""
