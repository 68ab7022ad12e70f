"""Code in other languages that shell commands carry: what it would do, as far as its text shows.

One reader for each language or family: `read_python`, `read_javascript`, `read_sed`, `read_awk`,
`read_sql` and `read_one_liner`, each a function from a text to a `Code`. Nothing is run and no file
is looked at.
"""
