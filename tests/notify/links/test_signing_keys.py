import stat
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from safetyd.bus.keyring import KeyUnusable
from safetyd.notify.links.signing_keys import LinkKeys
from safetyd.notify.links.tokens import LinkKey, Signer
from tests.story import NOON

DAY = timedelta(days=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "links.json"


def letters(keys: tuple[LinkKey, ...]) -> list[tuple[str, str]]:
    return [(key.kid, key.state) for key in keys]


def test_first_use_makes_a_key_that_only_its_owner_can_read(path: Path) -> None:
    keys = LinkKeys(path).keys(NOON)

    assert letters(keys) == [("a", "active")]
    assert len(keys[0].secret) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["links.json"]


def test_keys_are_the_same_the_next_time(path: Path) -> None:
    made = LinkKeys(path).keys(NOON)
    written = path.stat().st_mtime_ns

    assert LinkKeys(path).keys(NOON + DAY) == made
    assert path.stat().st_mtime_ns == written


def test_key_is_changed_after_ninety_days_and_the_old_one_believed_for_seven(path: Path) -> None:
    keys = LinkKeys(path)
    keys.keys(NOON)

    assert letters(keys.keys(NOON + 89 * DAY)) == [("a", "active")]
    assert letters(keys.keys(NOON + 90 * DAY)) == [("a", "verify"), ("b", "active")]
    assert letters(keys.keys(NOON + 96 * DAY)) == [("a", "verify"), ("b", "active")]
    assert letters(keys.keys(NOON + 97 * DAY)) == [("b", "active")]
    assert letters(LinkKeys(path).keys(NOON + 97 * DAY)) == [("b", "active")]


def test_links_outlive_a_change_of_keys_but_not_a_revocation(path: Path) -> None:
    keys = LinkKeys(path)
    token = Signer(keys.keys(NOON)).token("dlv_1", "req_1", "alice")

    changed = Signer(keys.rotate(NOON + DAY))
    revoked = Signer(keys.rotate(NOON + 2 * DAY, revoke_now=True))

    assert changed.check(token) is not None
    assert revoked.check(token) is None
    assert letters(keys.keys(NOON + 2 * DAY)) == [
        ("a", "revoked"),
        ("b", "revoked"),
        ("c", "active"),
    ]


def test_what_was_revoked_is_never_believed_again(path: Path) -> None:
    keys = LinkKeys(path)
    keys.rotate(NOON)
    keys.rotate(NOON, revoke_now=True)

    assert letters(keys.rotate(NOON)) == [("a", "revoked"), ("b", "verify"), ("c", "active")]


def test_letters_begin_again_after_the_last_and_no_two_keys_have_the_same(path: Path) -> None:
    keys = LinkKeys(path)

    made = [keys.rotate(NOON) for _ in range(27)][-1]

    assert made[-1].kid == "a"
    assert len(made) == len({key.kid for key in made}) == 26


def test_lost_file_is_made_anew_and_old_links_are_dead(path: Path) -> None:
    token = Signer(LinkKeys(path).keys(NOON)).token("dlv_1", "req_1", "alice")
    path.unlink()

    assert Signer(LinkKeys(path).keys(NOON)).check(token) is None


def test_file_left_by_a_crash_is_no_hindrance(path: Path) -> None:
    keys = LinkKeys(path)
    keys.keys(NOON)
    path.with_name("links.json.new").write_text("half")

    assert letters(keys.rotate(NOON))[-1] == ("b", "active")


def written(*keys: LinkKey) -> bytes:
    return msgspec.json.encode(keys)


GOOD = LinkKey(kid="a", secret=bytes(32), created=NOON)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b'[{"kid": "a"}]',
        written(LinkKey(kid="a", secret=bytes(31), created=NOON)),
        written(LinkKey(kid="aa", secret=bytes(32), created=NOON)),
        written(LinkKey(kid="a", secret=bytes(32), created=NOON, state="verify")),
        written(GOOD, GOOD),
    ],
)
def test_file_that_holds_no_keys_is_named_and_not_repeated(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(KeyUnusable) as error:
        LinkKeys(path).keys(NOON)

    assert str(error.value).startswith(f"{path} cannot be used: ")
    assert "AAAA" not in str(error.value)
