"""Events in PostgreSQL: loaded from the audit files, exactly once, from where loading stopped.

Others import `PostgresOutlet`, `Loader`, `differences` and the configuration; psycopg stays here.
"""
