import stat
from pathlib import Path

import nkeys
import pytest

from safetyd.bus.keyring import KeyExists, KeyMissing, Keyring, KeyUnusable, public_key, seed_in


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    return keyring


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_for_their_owner_alone(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")

    for path in (keyring.daemon, keyring.operator, keyring.operator_token, seed):
        assert mode(path) == 0o600
    assert mode(seed.parent) == mode(keyring.daemon.parent) == 0o700


def test_own_keys_are_made_once(keyring: Keyring) -> None:
    paths = (keyring.daemon, keyring.operator, keyring.operator_token)
    before = [path.read_bytes() for path in paths]

    keyring.make_own()

    assert [path.read_bytes() for path in paths] == before


def test_public_key_belongs_to_the_seed(keyring: Keyring) -> None:
    seed = keyring.add("agents", "code")

    pair = nkeys.from_seed(seed.read_bytes().strip())

    assert pair.public_key.decode() == public_key(seed)
    assert dict(keyring.public("agents")) == {"code": public_key(seed)}


def test_public_key_is_found_without_its_file(keyring: Keyring) -> None:
    before = public_key(keyring.daemon)

    keyring.daemon.with_suffix(".pub").unlink()

    assert public_key(keyring.daemon) == before


def test_agent_stays_known_when_its_seed_was_moved_away(keyring: Keyring) -> None:
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
def test_name_that_could_not_stand_in_a_subject_gets_no_key(keyring: Keyring, name: str) -> None:
    with pytest.raises(ValueError, match="is not a name: use 1 to 64"):
        keyring.add("agents", name)


@pytest.mark.parametrize(("role", "name"), [("agents", "code"), ("operators", "local")])
def test_name_that_has_a_key_gets_no_other(keyring: Keyring, role: str, name: str) -> None:
    if role == "agents":
        keyring.add("agents", name)

    with pytest.raises(KeyExists, match=f"{name} already has a key: "):
        keyring.add(role, name)  # type: ignore[arg-type]


def test_revoked_key_is_gone_and_can_be_made_anew(keyring: Keyring) -> None:
    before = keyring.add("agents", "code").read_bytes()

    keyring.revoke("agents", "code")
    assert list(keyring.public("agents")) == []

    assert keyring.add("agents", "code").read_bytes() != before


def test_key_whose_seed_was_moved_away_can_be_revoked(keyring: Keyring) -> None:
    keyring.add("agents", "code").unlink()

    keyring.revoke("agents", "code")

    assert list(keyring.public("agents")) == []


def test_key_that_is_not_there_cannot_be_revoked(keyring: Keyring) -> None:
    with pytest.raises(KeyMissing, match="`safetyd agent list` shows who has"):
        keyring.revoke("agents", "code")


@pytest.mark.parametrize("content", [b"", b"UABC", b"\xff", b"x" * 58, b"../../etc/passwd"])
def test_file_that_holds_no_key_is_named(keyring: Keyring, content: bytes) -> None:
    seed = keyring.add("agents", "code")
    seed.write_bytes(content)
    seed.with_suffix(".pub").write_bytes(content)

    with pytest.raises(KeyUnusable, match=r"code\.nk holds no nkey seed"):
        seed_in(seed)
    with pytest.raises(KeyUnusable, match=r"code\.pub holds no public key"):
        list(keyring.public("agents"))


@pytest.mark.parametrize("content", [b"", b"UABC", b"\xff", b"x" * 56])
def test_local_operators_public_key_is_checked_like_every_other(
    keyring: Keyring, content: bytes
) -> None:
    keyring.operator.with_suffix(".pub").write_bytes(content)

    with pytest.raises(KeyUnusable, match=r"operator\.pub holds no public key"):
        list(keyring.public("operators"))


def test_seed_without_its_public_key_is_checked_too(keyring: Keyring) -> None:
    keyring.operator.with_suffix(".pub").unlink()
    keyring.operator.write_text("SUABC")

    with pytest.raises(KeyUnusable, match=r"operator\.nk holds no nkey seed"):
        list(keyring.public("operators"))


def test_bearer_is_long_and_without_its_line_end(keyring: Keyring) -> None:
    assert keyring.bearer() == keyring.operator_token.read_text().strip()
    assert len(keyring.bearer()) == 43


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff" * 43, b"two words " * 9])
def test_file_that_holds_no_token_lets_nobody_in(keyring: Keyring, content: bytes) -> None:
    keyring.operator_token.write_bytes(content)

    with pytest.raises(KeyUnusable, match=r"operator\.token holds no token \(32 or more of"):
        keyring.bearer()


def test_seed_is_read_without_its_line_end(keyring: Keyring) -> None:
    assert seed_in(keyring.daemon) == keyring.daemon.read_text().strip()
