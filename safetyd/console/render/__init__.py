"""What commands print: pure functions from an answer to lines.

Every command, the doctor, the demo and the review screen import these.
"""
