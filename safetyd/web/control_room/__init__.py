"""The control room: pages for operators that show everything, answer requests and stop everything.

The site mounts it. Pages are made of views by templates in `web/templates/room`.
"""
