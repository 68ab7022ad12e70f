"""What people with a key reach: commands, answers to requests, and questions.

Others import `commands` and `reviews`, and the views to show the same elsewhere.
"""
