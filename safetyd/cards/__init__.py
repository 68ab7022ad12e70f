"""Cards: the text of a request, alert, summary or digest, independent of where it is shown.

Terminals, pages, mail, SMS and the other channels all render the same card.
"""
