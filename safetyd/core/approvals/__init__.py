"""Requests to people, their answers, and grants."""
