"""Coding agents such as Claude Code: their tool calls as proposals, decisions as their answers.

A coding agent is called a host, because it hosts the model. Everything here is pure; nothing
outside this package knows a host's name or its tools.
"""
