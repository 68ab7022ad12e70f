"""The pages that decision links open. They use no script and are designed for phones first.

`link_handler` serves them; `change_view` is also used by the control room.
"""
