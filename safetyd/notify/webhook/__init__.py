"""Signed webhooks: one POST of JSON for each message.

`channel` is the table in the configuration; the documents also read the structs of the JSON.
"""
