"""File history of the folders that agents change, stored with git, and rollbacks.

Everything here blocks and runs in worker threads. Other packages import `project_history`;
docs/decisions/0018 says why safetyd commits to its own repository.
"""
