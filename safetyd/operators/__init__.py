"""What people with a key reach: commands, answers to requests, and questions.

Others import `commands`, `replies` and `reviews` to offer the same by other ways, and the views.
"""
