"""`safetyd protect`, `unprotect` and `verify`: the hooks in the settings of coding agents.

`protect.py` has the commands, `protected_hosts.py` plans and writes, `hook_trial.py` tries a hook.
Other packages import nothing from here.
"""
