"""`safetyd protect`, `unprotect` and `verify`: the hooks in the settings of coding agents.

`protect.py` has the commands, `protected_hosts.py` plans and writes, `host_problems.py` finds what
is wrong, `hook_trial.py` tries a hook. Besides the command line, only
`safetyd doctor` imports from here.
"""
