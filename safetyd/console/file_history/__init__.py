"""File history: `safetyd history` shows what agents changed, `safetyd rollback` restores files.

The commands are in `list_history` and `roll_back`.
"""
