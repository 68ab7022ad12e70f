"""`safetyd doctor`: its checks, and how to fix each problem.

The command is in `doctor`.
"""
