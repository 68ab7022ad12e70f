"""Notifications on desktops: what they show, what their buttons do.

`channel` is the table in the configuration; the helper of the console shows the same. dbus-fast
stays in `dbus_session`.
"""
