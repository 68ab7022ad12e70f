import pytest

from safetyd.daemon.config import ConfigError, parse


def test_no_snapshots_are_taken_unless_somebody_asks_for_them():
    assert parse("", "f").history.snapshot_at == ""


@pytest.mark.parametrize("hour", ["3:30", "24:00", "03:60", "03:30:00", "night"])
def test_an_hour_that_is_none_is_refused_with_an_example(hour: str):
    with pytest.raises(ConfigError) as refused:
        parse(f'[history]\nsnapshot_at = "{hour}"', "f")

    assert refused.value.errors == [
        f'f: history.snapshot_at is "{hour}"; it must be a time such as "03:30", or empty'
    ]


def test_archives_are_kept_at_a_path_from_the_root():
    assert parse('[history]\narchive_dir = "/mnt/far"', "f").history.archive_dir == "/mnt/far"
    with pytest.raises(ConfigError, match="a path that begins with /, or empty"):
        parse('[history]\narchive_dir = "far"', "f")
