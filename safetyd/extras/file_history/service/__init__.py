"""What a daemon does with version histories: it makes commits beside its work, and goes back.

Others import `commit_worker` (commits that are due), `history_service` (what people ask and order)
and `histories` (of which projects).
"""
