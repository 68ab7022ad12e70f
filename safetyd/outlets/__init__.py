"""Where events go besides the journal, for those who ask other questions than the daemon answers.

`postgres/` has the one there is. Nothing in safetyd needs what is there.
"""
