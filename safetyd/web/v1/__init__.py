"""The JSON API below /api/v1/: questions of the local operator, the event feed, and agents.

The daemon joins `QuestionRoutes` and `EventSocket` to the site behind the operator's bearer, and
`AgentRoutes` behind the tokens of agents. openapi.yaml is generated from the same tables.
"""
