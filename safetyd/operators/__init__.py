"""Commands, answers to requests, and questions of operators.

Other packages import `commands`, `replies`, `reviews` and the views.
"""
