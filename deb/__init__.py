"""Builds the Debian package: `make deb`.

`build_package` is the program. `files/` has the control file, the scripts and the texts.
"""
