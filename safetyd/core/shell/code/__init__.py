"""Code in other languages that shell commands carry: what it would do, as far as its text shows.

One reader for each language: `read_python`, `read_sed` and `read_awk`, each a function from a text
to a `Code`. Nothing is run and no file is looked at.
"""
