"""Pages as functions of what they show, laid out by `templates/`: no script, a telephone first.

The handlers of the web import these. `request_card_view` is for every page that shows a request.
"""
