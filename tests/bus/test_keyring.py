import stat
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import nkeys
import pytest

from safetyd.bus.keyring import (
    KeyExists,
    KeyMissing,
    Keyring,
    KeyUnusable,
    OldKey,
    Role,
    locked,
    public_key,
    seed_in,
)

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    return keyring


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_secrets(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")

    for path in (keyring.daemon, keyring.operator, keyring.operator_token, seed):
        assert mode(path) == 0o600
    assert mode(seed.parent) == mode(keyring.daemon.parent) == 0o700


def test_own_keys_are_created_once(keyring: Keyring) -> None:
    paths = (keyring.daemon, keyring.operator, keyring.operator_token)
    before = [path.read_bytes() for path in paths]

    keyring.make_own()

    assert [path.read_bytes() for path in paths] == before


def test_public_key_matches_the_seed(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")

    pair = nkeys.from_seed(seed.read_bytes().strip())

    assert pair.public_key.decode() == public_key(seed)
    assert dict(keyring.public("agents")) == {"code": public_key(seed)}


def test_public_key_is_derived_if_its_file_is_missing(keyring: Keyring) -> None:
    before = public_key(keyring.daemon)

    keyring.daemon.with_suffix(".pub").unlink()

    assert public_key(keyring.daemon) == before


def test_agent_stays_known_if_its_seed_is_moved_away(keyring: Keyring) -> None:
    keyring.add("agents", "code").unlink()

    assert [name for name, _ in keyring.public("agents")] == ["code"]


def test_names_are_listed_in_order_and_by_role(keyring: Keyring) -> None:
    for name in ("ops", "code"):
        keyring.add("agents", name)
    keyring.add("observers", "wall")
    keyring.add("operators", "alice")

    assert [name for name, _ in keyring.public("agents")] == ["code", "ops"]
    assert [name for name, _ in keyring.public("observers")] == ["wall"]
    assert [name for name, _ in keyring.public("operators")] == ["local", "alice"]


@pytest.mark.parametrize("name", ["", "a.b", "a b", "../a", "*", ">", "x" * 65, "a\n"])
def test_name_that_is_invalid_in_a_subject_gets_no_key(keyring: Keyring, name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid name"):
        keyring.add("agents", name)


@pytest.mark.parametrize(("role", "name"), [("agents", "code"), ("operators", "local")])
def test_name_with_a_key_gets_no_second_key(keyring: Keyring, role: str, name: str) -> None:
    if role == "agents":
        keyring.add("agents", name)

    with pytest.raises(KeyExists, match=f"{name} already has a key: "):
        keyring.add(role, name)  # type: ignore[arg-type]


def test_revoked_key_is_deleted_and_can_be_created_again(keyring: Keyring) -> None:
    before = keyring.add("agents", "code").read_bytes()

    keyring.revoke("agents", "code")
    assert list(keyring.public("agents")) == []

    assert keyring.add("agents", "code").read_bytes() != before


def test_key_can_be_revoked_if_its_seed_is_moved_away(keyring: Keyring) -> None:
    keyring.add("agents", "code").unlink()

    keyring.revoke("agents", "code")

    assert list(keyring.public("agents")) == []


def test_missing_key_cannot_be_revoked(keyring: Keyring) -> None:
    with pytest.raises(KeyMissing, match="`safetyd agent list`"):
        keyring.revoke("agents", "code")


@pytest.mark.parametrize("content", [b"", b"UABC", b"\xff", b"x" * 58, b"../../etc/passwd"])
def test_error_names_a_file_without_a_key(keyring: Keyring, content: bytes) -> None:
    seed = keyring.add("agents", "code")
    seed.write_bytes(content)
    seed.with_suffix(".pub").write_bytes(content)

    with pytest.raises(KeyUnusable, match=r"code\.nk does not contain an nkey"):
        seed_in(seed)
    with pytest.raises(KeyUnusable, match=r"code\.pub does not contain a public"):
        list(keyring.public("agents"))


@pytest.mark.parametrize("content", [b"", b"UABC", b"\xff", b"x" * 56])
def test_public_key_of_the_local_operator_is_checked(keyring: Keyring, content: bytes) -> None:
    keyring.operator.with_suffix(".pub").write_bytes(content)

    with pytest.raises(KeyUnusable, match=r"operator\.pub does not contain a public"):
        list(keyring.public("operators"))


def test_seed_without_its_public_key_is_checked(keyring: Keyring) -> None:
    keyring.operator.with_suffix(".pub").unlink()
    keyring.operator.write_text("SUABC")

    with pytest.raises(KeyUnusable, match=r"operator\.nk does not contain an nkey"):
        list(keyring.public("operators"))


def test_bearer_is_long_and_has_no_newline(keyring: Keyring) -> None:
    assert keyring.bearer() == keyring.operator_token.read_text().strip()
    assert len(keyring.bearer()) == 43


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff" * 43, b"two words " * 9])
def test_file_without_a_token_admits_nobody(keyring: Keyring, content: bytes) -> None:
    keyring.operator_token.write_bytes(content)

    with pytest.raises(
        KeyUnusable, match=r"operator\.token does not contain a token \(32 or more of"
    ):
        keyring.bearer()


def test_seed_is_read_without_its_newline(keyring: Keyring) -> None:
    assert seed_in(keyring.daemon) == keyring.daemon.read_text().strip()


def trusted(keyring: Keyring, role: Role, name: str, now: datetime = NOW) -> list[str]:
    """Return the trusted public keys of a name, the newest first."""
    old = [key.public for whose, key in keyring.old_keys(now)[role] if whose == name]
    return [dict(keyring.public(role))[name], *old]


def seeds_key(seed: Path, elsewhere: Path) -> str:
    """Return the public key derived from a seed, without its `.pub` file."""
    elsewhere.write_bytes(seed.read_bytes())
    return public_key(elsewhere)


def test_old_key_stays_trusted_until_it_expires_after_a_rotation(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")
    before, old = seed.read_bytes(), public_key(seed)

    rotation = keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    assert rotation.seed == seed
    assert seed.read_bytes() != before
    assert public_key(seed) == rotation.public != old
    assert trusted(keyring, "agents", "code") == [rotation.public, old]
    assert trusted(keyring, "agents", "code", NOW + HOUR) == [rotation.public]
    assert rotation.old_keys == (OldKey(old, NOW + HOUR),)
    assert mode(seed) == 0o600


def test_rotation_leaves_no_copy_of_the_old_seed(keyring: Keyring) -> None:
    old = seed_in(keyring.add("agents", "code"))

    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    files = [path for path in keyring.daemon.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if old in path.read_text()]
    assert not list(keyring.daemon.parent.rglob("*.next.nk"))


def test_rotation_without_overlap_ends_all_earlier_keys(keyring: Keyring) -> None:
    keyring.add("agents", "code")
    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    rotation = keyring.rotate("agents", "code", now=NOW, until=NOW)

    assert trusted(keyring, "agents", "code") == [rotation.public]
    assert not list(keyring.daemon.parent.rglob("*.old.json"))


@pytest.mark.parametrize(("again", "ends"), [(2, (2, 1)), (0.5, (0.5, 0.5))])
def test_second_rotation_does_not_extend_an_old_key(
    keyring: Keyring, again: float, ends: tuple[float, ...]
) -> None:
    first = public_key(keyring.add("agents", "code"))
    second = keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR).public

    third = keyring.rotate("agents", "code", now=NOW, until=NOW + again * HOUR)

    assert trusted(keyring, "agents", "code") == [third.public, second, first]
    assert tuple((key.until - NOW) / HOUR for key in third.old_keys) == ends


def test_rotation_does_not_revive_an_expired_key(keyring: Keyring) -> None:
    first = public_key(keyring.add("agents", "code"))
    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    keyring.rotate("agents", "code", now=NOW + 2 * HOUR, until=NOW + 4 * HOUR)

    assert first not in trusted(keyring, "agents", "code", NOW + 3 * HOUR)


def test_local_operator_gets_a_new_token_with_a_new_key(keyring: Keyring) -> None:
    old, bearer = public_key(keyring.operator), keyring.bearer()

    rotation = keyring.rotate("operators", "local", now=NOW, until=NOW + HOUR)

    assert rotation.seed == keyring.operator
    assert trusted(keyring, "operators", "local") == [rotation.public, old]
    assert keyring.bearer() != bearer
    assert mode(keyring.operator) == mode(keyring.operator_token) == 0o600


def test_rotation_creates_a_seed_if_it_was_moved_away(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")
    old = public_key(seed)
    seed.unlink()

    rotation = keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    assert seed.exists()
    assert trusted(keyring, "agents", "code") == [rotation.public, old]


def test_name_without_a_key_cannot_be_rotated(keyring: Keyring) -> None:
    with pytest.raises(KeyMissing, match="`safetyd operator list`"):
        keyring.rotate("observers", "wall", now=NOW, until=NOW)


def test_revocation_ends_old_keys_too(keyring: Keyring) -> None:
    keyring.add("agents", "code")
    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    keyring.revoke("agents", "code")
    keyring.add("agents", "code")

    assert len(trusted(keyring, "agents", "code")) == 1


def test_old_keys_of_an_earlier_holder_of_the_name_are_not_trusted(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")
    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)
    seed.with_suffix(".pub").unlink()  # an interrupted revocation
    assert keyring.old_keys(NOW)["agents"] == ()

    keyring.add("agents", "code")

    assert len(trusted(keyring, "agents", "code")) == 1


def test_old_keys_can_be_ended_early(keyring: Keyring) -> None:
    keyring.add("agents", "code")
    rotation = keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    keyring.end_old_keys("agents", "code")

    assert trusted(keyring, "agents", "code") == [rotation.public]


@pytest.mark.parametrize("moved_away", [False, True])
def test_undo_restores_every_file_of_a_rotation(keyring: Keyring, *, moved_away: bool) -> None:
    keyring.add("operators", "alice")
    keyring.rotate("operators", "alice", now=NOW, until=NOW + HOUR)
    if moved_away:
        keyring.seed_of("operators", "alice").unlink()
    files = sorted(path for path in keyring.daemon.parent.rglob("*") if path.is_file())
    before = [(path, path.read_bytes(), mode(path)) for path in files]

    for name in ("alice", "local"):
        keyring.undo(keyring.rotate("operators", name, now=NOW, until=NOW + 2 * HOUR))

    files = sorted(path for path in keyring.daemon.parent.rglob("*") if path.is_file())
    assert [(path, path.read_bytes(), mode(path)) for path in files] == before


def test_settle_deletes_expired_keys(keyring: Keyring) -> None:
    for name in ("code", "ops"):
        keyring.add("agents", name)
    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)
    later = keyring.rotate("agents", "ops", now=NOW, until=NOW + 2 * HOUR)

    keyring.settle(NOW + HOUR)

    assert keyring.old_keys(NOW) == {
        "agents": (("ops", later.old_keys[0]),),
        "operators": (),
        "observers": (),
        "relays": (),
    }
    assert [path.name for path in keyring.daemon.parent.rglob("*.old.json")] == ["ops.old.json"]


@pytest.mark.parametrize(("role", "name"), [("agents", "code"), ("operators", "local")])
@pytest.mark.parametrize("overlap", [HOUR, 0 * HOUR])
@pytest.mark.parametrize("crash_at", range(1, 7))
def test_rotation_interrupted_at_any_step_leaves_a_trusted_seed(
    keyring: Keyring,
    tmp_path: Path,
    role: Role,
    name: str,
    overlap: timedelta,
    crash_at: int,
) -> None:
    keyring.add("agents", "code")
    seed = keyring.seed_of(role, name)
    old, numbers, rename = public_key(seed), count(1), Path.rename

    def crash(path: Path, target: Path) -> Path:
        if next(numbers) == crash_at:
            raise KeyboardInterrupt
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", crash)
        try:
            keyring.rotate(role, name, now=NOW, until=NOW + overlap)
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
    if overlap:
        assert old in trusted(keyring, role, name)
        assert seeds_key(seed, tmp_path / "before.nk") in trusted(keyring, role, name)

    keyring.settle(NOW)

    steps = 3 + bool(overlap) + (name == "local")
    assert interrupted is (crash_at <= steps)
    assert not list(keyring.daemon.parent.rglob("*.next.nk"))
    assert seeds_key(seed, tmp_path / "after.nk") == trusted(keyring, role, name)[0]
    again = keyring.rotate(role, name, now=NOW, until=NOW + HOUR)
    assert seeds_key(seed, tmp_path / "again.nk") == again.public


def test_settle_changes_nothing_while_the_keys_are_locked(keyring: Keyring) -> None:
    keyring.add("agents", "code")
    keyring.rotate("agents", "code", now=NOW, until=NOW + HOUR)

    with locked(keyring._directory):
        Keyring(keyring.daemon.parent).settle(NOW + HOUR)
        assert list(keyring.daemon.parent.rglob("*.old.json"))
    keyring.settle(NOW + HOUR)

    assert not list(keyring.daemon.parent.rglob("*.old.json"))


@pytest.mark.parametrize(
    "content",
    [b"", b"[1]", b'[{"public": "U", "until": "2026-11-02T12:00:00Z"}]', b'[{"public": "U"}]'],
)
def test_error_names_a_file_without_old_keys(keyring: Keyring, content: bytes) -> None:
    keyring.operator.with_suffix(".old.json").write_bytes(content)

    with pytest.raises(KeyUnusable, match=r"operator\.old\.json does not contain "):
        keyring.old_keys(NOW)


def test_expiry_without_a_time_zone_is_rejected(keyring: Keyring) -> None:
    content = f'[{{"public": "{public_key(keyring.daemon)}", "until": "2026-11-02T12:00:00"}}]'
    keyring.operator.with_suffix(".old.json").write_text(content)

    with pytest.raises(KeyUnusable, match="list of old keys"):
        keyring.old_keys(NOW)
