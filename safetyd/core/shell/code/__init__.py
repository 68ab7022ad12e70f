"""Analysis of code in other languages inside shell commands.

One function for each language, from a text to a `Code`: `read_python`, `read_javascript`,
`read_sed`, `read_awk`, `read_sql` and `read_one_liner`. Nothing runs and no file is opened.
"""
