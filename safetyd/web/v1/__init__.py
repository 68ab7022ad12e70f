"""The JSON API below /api/v1/: queries of the local operator, the event feed, and agents.

`QuestionRoutes` and `EventSocket` need the operator's bearer token, `AgentRoutes` needs the tokens
of agents. openapi.yaml is generated from the same tables.
"""
