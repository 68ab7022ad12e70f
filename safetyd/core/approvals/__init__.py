"""Approval requests and their answers, and grants, which approve actions in advance.

`Approvals` is the actor. Other packages import the structs of requests and grants, the hints for
grants, and `assurance`, which checks every answer.
"""
