"""SMS by Twilio: what fits into a segment, how it is sent, what people reply.

The registry opens the channel; the web hands in replies and reports. twilio stays in
`twilio_client`.
"""
