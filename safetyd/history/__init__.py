"""Version history of the folders that agents change, kept with git, and the way back to it.

Everything here blocks and is for worker threads. Others import `project_history`; why commits are
made in a repository of safetyd's own is in docs/decisions/0018.
"""
