"""Pages in HTML, as functions of what they show: no script, for a telephone first.

The handlers of the web import these.
"""
