"""Desktop notifications: their content and their buttons.

`channel` is the table in the configuration. The desktop helper of the console uses the same
modules. Only `dbus_session` imports dbus-fast.
"""
