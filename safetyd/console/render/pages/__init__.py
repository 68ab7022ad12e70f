"""What the pages of the control room show, at a terminal.

`safetyd money`, `safetyd anomalies` and `safetyd agents NAME` print it. Only `console` imports it.
"""
