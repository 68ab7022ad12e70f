"""SMS by Twilio: what fits into a segment, how it is sent, what people reply.

`channel` is the table in the configuration; `twilio_hooks` takes replies and reports. twilio stays
in `twilio_client`.
"""
