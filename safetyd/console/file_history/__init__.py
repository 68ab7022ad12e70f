"""What agents changed, and the way back.

Others import `list_history` (`safetyd history`) and `roll_back` (`safetyd rollback`).
"""
