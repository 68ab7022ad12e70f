from datetime import date, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

Hour = Annotated[
    str,
    Meta(
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        extra_json_schema={"description": 'a time such as "03:30", or empty'},
    ),
]
Size = Annotated[int, Meta(ge=0, le=1024**5)]
Folder = Annotated[
    str,
    Meta(
        pattern=r"^(/.*)?$",
        extra_json_schema={"description": "an absolute path, or empty"},
    ),
]


class HistoryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    snapshot_at: Hour = ""  # in notifications.timezone; empty: no snapshots
    max_file_bytes: Size = 256 * 1024**2  # larger files are not committed
    max_commit_bytes: Size = 4 * 1024**3  # all changed files of one commit
    archive_dir: Folder = ""  # for weekly archives; empty: `archives` in the data directory

    def hour_of(self, day: date, zone: str) -> datetime:
        """Return when a day's snapshot is due."""
        return datetime.combine(day, time.fromisoformat(self.snapshot_at), ZoneInfo(zone))

    def due_day(self, now: datetime, zone: str) -> date:
        """Return the last day whose snapshot is due."""
        day = today(now, zone)
        return day if now >= self.hour_of(day, zone) else day - timedelta(days=1)


def today(now: datetime, zone: str) -> date:
    return now.astimezone(ZoneInfo(zone)).date()
