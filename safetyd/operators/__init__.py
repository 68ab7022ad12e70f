"""Commands, answers to requests, and queries of operators.

Other packages import `commands`, `replies`, `reviews` and the views.
"""
