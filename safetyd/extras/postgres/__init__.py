"""Export of events to PostgreSQL: each event exactly once, read from the audit files.

Other packages import `PostgresOutlet`, `Loader`, `differences` and the configuration. Only this
package imports psycopg.
"""
