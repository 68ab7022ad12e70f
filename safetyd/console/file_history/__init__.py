"""File history: what agents changed, and rollbacks.

Others import `list_history` (`safetyd history`) and `roll_back` (`safetyd rollback`).
"""
