"""Analyses code in other languages inside shell commands.

One function per language turns a text into a `Code`: `read_python`, `read_javascript`,
`read_sed`, `read_awk`, `read_sql` and `read_one_liner`. No code is run, and no file is opened.
"""
