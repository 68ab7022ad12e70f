"""Coding agents such as Claude Code: turns their tool calls into proposals, decisions into answers.

A coding agent is called a host, because it hosts the model. Only this package knows the tools and
the hook events of each host.
"""
