"""Requests to people: asked, answered, over; and grants, which answer beforehand.

`Approvals` is the actor. Others import the structs of requests and grants, hints for grants, and
`assurance`, which judges every answer.
"""
