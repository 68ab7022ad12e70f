"""SMS through Twilio: the text, sending, replies and delivery reports.

`channel` is the table in the configuration; `twilio_hooks` receives replies and reports. Only
`twilio_client` imports twilio.
"""
