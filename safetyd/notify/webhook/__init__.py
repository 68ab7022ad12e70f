"""Signed webhooks: one POST of JSON for each message.

`channel` is the table in the configuration; docs/generate.py also reads its JSON structs.
"""
