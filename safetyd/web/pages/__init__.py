"""The pages behind decision links. They use no script and are made for phones first.

`link_handler` serves them; `change_view` is also used by the control room.
"""
