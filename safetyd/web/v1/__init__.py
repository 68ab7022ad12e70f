"""What programs of the local operator may see, as JSON: every question, and the feed of events.

The daemon joins `QuestionRoutes` and `EventSocket` to the site, which lets nobody in without the
operator's bearer; openapi.yaml is generated from `PATHS`.
"""
