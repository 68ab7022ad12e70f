"""Export of events to PostgreSQL: each event exactly once, read from the audit files.

Other packages import `PostgresExporter`, `Loader`, `compare` and the configuration. Only this
package imports psycopg.
"""
