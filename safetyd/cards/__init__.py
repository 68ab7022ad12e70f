"""Cards: a request, an alert, a summary or a digest in words, before a place lays it out.

A place is a terminal, a page, a mail, an SMS or another channel. Every place shows the same card.
"""
