"""File history as a service: commits in the background, queries and rollbacks.

Other packages import `commit_worker`, `history_service` and `histories`.
"""
