"""The data directory's owners, as files; `tests/journeys/test_ownership.py` has the other user."""

import os
import pwd
from pathlib import Path

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.daemon.file_ownership import problems

US = os.geteuid()
NOBODY = 65534
ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT PROVEN HERE: only root can give files to another Unix user"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory as a daemon leaves it, in one that is its own as well."""
    made = tmp_path / "above" / "data"
    made.mkdir(parents=True)
    made.chmod(0o750)  # as the unit has it, for the group to find the bus
    keyring = Keyring(made / "keys")
    keyring.make_own()
    keyring.add("operators", "alice")
    keyring.add("agents", "code")
    for name in ("nats", "audit", "checkpoints"):
        (made / name).mkdir()
    return made


def test_what_a_daemon_makes_is_in_order_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        keyring = Keyring(tmp_path / "keys")
        keyring.make_own()
        keyring.add("operators", "alice")
    finally:
        os.umask(before)

    assert problems(tmp_path, US) == []


def test_everything_in_order_is_no_problem(data):
    assert problems(data, US) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "keys",
        "keys/operators",
        "keys/agents",
        "keys/operators/alice.pub",
        "keys/daemon.nk",
        "nats",
        "audit",
        "checkpoints",
    ],
)
def test_whatever_others_can_write_to_is_named_with_the_command(data, name):
    path = data / name
    path.chmod(path.stat().st_mode | 0o002)

    (said,) = problems(data, US)

    assert said.startswith(f"other users can write to {path} (mode 0")
    assert said.endswith(f"`chmod go-w {path}`")


@ROOT_ONLY
@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("", "`chown root {}`"),
        ("keys", "`chown root {}`"),
        ("keys/operators/alice.pub", "`rm {0}`, or `chown root {0}` if you trust it"),
        ("nats", "`mv {0} {0}.foreign`, or `chown -R root {0}` if it is yours"),
    ],
)
def test_what_belongs_to_others_is_named_with_the_owner_and_the_command(data, name, mend):
    path = data / name
    os.chown(path, NOBODY, -1)

    assert problems(data, US) == [f"{path} belongs to nobody: {mend.format(path)}"]


@ROOT_ONLY
def test_what_belongs_to_root_is_trusted_by_every_user(data):
    assert problems(data, NOBODY) == []


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_directory_above_must_not_let_others_replace_ours(data, mode, refused):
    data.parent.chmod(mode)

    found = problems(data, US)

    assert bool(found) == refused
    assert all(f"{data.parent} allows other users to replace {data}" in said for said in found)


@ROOT_ONLY
def test_directory_above_that_belongs_to_another_user_is_refused(data):
    os.chown(data.parent, NOBODY, -1)
    data.parent.chmod(0o1755)

    (said,) = problems(data, US)

    assert said.startswith(f"{data.parent} belongs to nobody, who can replace {data}")


def test_directories_above_a_link_and_above_what_it_names_are_judged(data, tmp_path):
    link = tmp_path / "links" / "data"
    link.parent.mkdir()
    link.symlink_to(data)
    data.parent.chmod(0o777)
    link.parent.chmod(0o777)

    said = problems(link, US)

    assert {line.partition(" ")[0] for line in said} == {str(data.parent), str(link.parent)}


@ROOT_ONLY
def test_key_that_is_a_link_to_somebody_elses_file_is_refused(data, tmp_path):
    target = tmp_path / "theirs.pub"
    target.touch()
    os.chown(target, NOBODY, -1)
    (data / "keys/operators/evil.pub").symlink_to(target)

    (said,) = problems(data, US)

    assert said.startswith(f"{target} belongs to nobody")


def test_group_that_is_a_users_own_may_write(data):
    """Many systems give each user a group, and let it write to what the user makes."""
    os.chown(data, -1, pwd.getpwuid(US).pw_gid)
    data.chmod(0o770)

    assert problems(data, US) == []


@ROOT_ONLY
@pytest.mark.parametrize("gid", [NOBODY, 54321], ids=["of another", "that nobody knows"])
def test_group_with_others_in_it_may_not_write(data, gid):
    os.chown(data, -1, gid)
    data.chmod(0o770)

    (said,) = problems(data, US)

    assert said.startswith("other users can write to ")
    assert "(mode 0770)" in said
