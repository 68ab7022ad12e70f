"""The daemon as a service of systemd.

The commands are in `install_service`. `service_unit` makes units from the shipped one.
"""
