"""What commands print: pure functions from an answer to lines.

The commands and the review screen import these.
"""
