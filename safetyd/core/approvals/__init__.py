"""Requests to people: asked, answered, over; and grants, which answer beforehand.

Others import the structs of requests and grants, and `assurance`, which judges every answer.
"""
