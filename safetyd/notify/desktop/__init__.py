"""Notifications on desktops: what they show, what their buttons do.

The registry opens the channel; the helper of the console shows the same. dbus-fast stays in
`dbus_session`.
"""
