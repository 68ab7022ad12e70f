"""Calls of Python client libraries that change data of a service, by name."""

import re
from typing import Final

from safetyd.core.shell.code.sql_code import UNREADABLE, read_sql
from safetyd.core.shell.reading import Effect, word_set

Found = tuple[Effect, str]

# Client modules of services. Queries are allowed.
_CLIENTS: Final = word_set("""
    mlflow wandb huggingface_hub datasets transformers kaggle comet_ml clearml neptune feast
    sagemaker kubernetes docker podman github gitlab jenkins jenkinsapi jira atlassian
    notion_client googleapiclient google azure msgraph digitalocean cloudflare CloudFlare libcloud
    openstack hvac consul etcd3 pika kafka confluent_kafka nats psycopg2 psycopg asyncpg pymysql
    MySQLdb mysql mariadb sqlalchemy pyodbc oracledb cx_Oracle snowflake clickhouse_connect
    clickhouse_driver elasticsearch opensearchpy influxdb influxdb_client cassandra neo4j motor
    peewee pony tortoise supabase firebase_admin pinecone qdrant_client weaviate chromadb pymilvus
    meilisearch algoliasearch airflow prefect dagster ray discord telegram mastodon praw shopify
    hubspot zenpy pagerduty datadog pyairtable gspread s3fs gcsfs adlfs minio dropbox pyVmomi
    proxmoxer netmiko napalm pynetbox ldap3 keycloak auth0 okta argocd dvc sqlite3 duckdb
""")
_LOCAL: Final = frozenset({"sqlite3", "duckdb"})  # databases in a file of the project, or in memory
_CHANGING: Final = word_set("""
    delete remove drop terminate destroy purge truncate flush wipe flushall flushdb upload push
    publish send revoke deregister unregister transition patch scale restart stop kill evict reset
    rollback cancel disable archive merge rm clear reboot shutdown put post produce grant rename
    deploy invoke trigger
""")
# Methods that change data of a service, on any object.
_ALWAYS: Final = word_set("""
    push_to_hub delete_object delete_objects delete_bucket terminate_instances put_object
    upload_file upload_fileobj upload_folder drop_database drop_collection delete_many flushall
    flushdb delete_repo delete_namespace delete_experiment delete_run drop_all delete_table
    delete_stack delete_index
""")
_QUERIES: Final = frozenset(
    {"execute", "executemany", "executescript", "exec_driver_sql", "command"}
)
_TEXTS: Final = frozenset({"sqlalchemy.text", "sqlalchemy.sql.text", "sqlalchemy.DDL"})
_first = re.compile(r"[A-Z]?[a-z]+").match
_CHANGES: Final = (Effect.LEAVES, "changes data of a service")


def service_call(name: str, statement: str | None) -> list[Found]:
    """Return the findings for a client call. `statement` is its first argument."""
    head, _, _ = name.partition(".")
    method = name.rpartition(".")[2]
    if name in _TEXTS or (method in _QUERIES and statement is not None):
        return _statement(statement or "", local=head.partition("(")[0] in _LOCAL)
    if method == "to_sql":
        return [(Effect.IRREVERSIBLE, "writes a database table")]
    if method in _ALWAYS:
        return [_CHANGES]
    stem = _first(method)
    changes = stem is not None and stem[0].lower() in _CHANGING
    return [_CHANGES] if changes and head in _CLIENTS - _LOCAL and head != name else []


def _statement(statement: str, *, local: bool) -> list[Found]:
    """Return the findings for a statement. For a local database, only deletions count."""
    if not statement.strip():
        return []
    found = [each for each in read_sql(statement, program="psql").findings if each != UNREADABLE]
    if local:
        found = [each for each in found if each[1].startswith(("drops", "deletes", "empties"))]
    return found
