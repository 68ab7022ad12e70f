"""Serves decision links on a public machine: `safetyd relay`.

`relay_site` is the web server on that machine, `relay_bus` its connection to the bus.
`relay_service` answers it in the daemon, which renders every page. The relay stores nothing.
"""
