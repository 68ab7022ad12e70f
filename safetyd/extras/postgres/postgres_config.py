"""The settings of exporters. The database address is a secret, stored in a file."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

SCHEMA_RULE: Final = "a name of at most 50 lower-case letters, digits and _, not starting with pg_"
Schema = Annotated[
    str,
    Meta(pattern=r"^(?!pg_)[a-z_][a-z0-9_]{0,49}$", extra_json_schema={"description": SCHEMA_RULE}),
]


class PostgresConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dsn_file: str = ""  # empty: no export
    schema: Schema = "safetyd"
    batch: Annotated[int, Meta(ge=1, le=100_000)] = 5000  # events in one transaction


class ExportersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: PostgresConfig = PostgresConfig()


def exporter_problems(config: ExportersConfig) -> Iterator[str]:
    """Yield an error if an address is given instead of a file name. The error omits the address."""
    file = config.postgres.dsn_file
    if "://" in file or "=" in file:
        yield (
            "outlets.postgres.dsn_file is an address; it must be the path of a file that "
            "contains the address and that only the daemon can read"
        )
