from typing import Annotated

import msgspec
from msgspec import Meta

Hour = Annotated[
    str,
    Meta(
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        extra_json_schema={"description": 'a time such as "03:30", or empty'},
    ),
]
Folder = Annotated[
    str,
    Meta(
        pattern=r"^(/.*)?$",
        extra_json_schema={"description": "a path that begins with /, or empty"},
    ),
]


class HistoryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    snapshot_at: Hour = ""  # of notifications.timezone; empty: no snapshots
    archive_dir: Folder = ""  # for weekly archives; empty: `archives` in the data directory
