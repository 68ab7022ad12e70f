from typing import Final

import pytest
from msgspec.structs import replace

from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.disk_words import filling, fullness, percent, size

GIB: Final = 1024**3
USE: Final = DiskUse(level="warn", disk="/var", free_bytes=4 * GIB, total_bytes=40 * GIB)


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (48 * 1024**2, "48.0 MiB"), (GIB, "1.0 GiB")],
)
def test_a_size_is_said_in_its_largest_unit(count: int, said: str) -> None:
    assert size(count) == said


def test_a_disk_is_full_only_if_nothing_is_free() -> None:
    assert percent(replace(USE, free_bytes=1)) == 99
    assert percent(replace(USE, free_bytes=0)) == 100
    assert percent(replace(USE, free_bytes=0, total_bytes=0)) == 0


def test_a_disk_is_named_with_what_is_free() -> None:
    assert fullness(USE) == "the disk at /var is 90 % full: 4.0 GiB of 40.0 GiB is free"
    assert fullness(replace(USE, free_files=10_000)) == fullness(USE)
    assert fullness(replace(USE, free_files=7)).endswith("7 more files")


def test_disk_usage_is_shown_largest_first_with_its_growth() -> None:
    parts = {"journal": GIB // 2, "audit": GIB, "checkpoints": 2048, "other": 0}

    assert filling(USE) == ""
    said = filling(replace(USE, parts=parts))
    assert "1.5 GiB" in said
    assert "(audit 1.0 GiB, journal 512.0 MiB, checkpoints 2.0 KiB)" in said
    assert filling(replace(USE, audit_bytes_per_hour=0.0)) == ""
    growing = filling(replace(USE, audit_bytes_per_hour=GIB))
    assert "1.0 GiB an hour" in growing
    assert growing.endswith(" 4 h")
