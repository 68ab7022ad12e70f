"""Approval requests and their answers, and grants, which approve in advance.

`Approvals` is the actor. Other packages import the structs of requests and grants, hints for
grants, and `assurance`, which judges every answer.
"""
