"""Links are followed to where they lead, and never to where looking could hang."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from safetyd.agents.path_resolution import MAX_CHARS, MAX_LINKS, MAX_LOOKS, Found, Walk, resolved
from safetyd.core.text.path_globs import UNFOLLOWED
from tests.checkout import ROOT

HERE = ROOT

# What is mounted hides the link, and is not looked into; when it is gone, the link is seen again.
MOUNTING = """
import subprocess, sys
from safetyd.agents.path_resolution import resolved
here = sys.argv[1]
for command in ([], ["mount", "-t", "devpts", "none", here], ["umount", here]):
    subprocess.run(command or ["true"], check=True)
    print(resolved([f"{here}/link"], ""))
"""


# As systemd hides home folders and temporary files from its services.
HIDING = """
import os, subprocess
from safetyd.agents.path_resolution import follow
os.makedirs("/tmp/systemd-private-x", exist_ok=True)
for command in (["mount", "-t", "tmpfs", "none", "/home"],
                ["mount", "--bind", "/tmp/systemd-private-x", "/tmp"]):
    subprocess.run(command, check=True)
paths = ["/home/me/app/link", "/tmp/link", "/etc/hostname", "~/x"]
print(follow(paths, "").hidden, follow(paths, "", None, {}).hidden)
print(follow(paths, "", None, {"/home/me/app/link": "/etc/shadow", "/tmp/link": "/tmp/link"}))
"""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a directory by its real name, with links in it."""
    top = tmp_path.resolve()
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "file").write_text("")
    (top / "to_file").symlink_to("a/file")
    (top / "to_b").symlink_to(top / "a" / "b")
    (top / "chain").symlink_to("to_b/../file")
    (top / "dangling").symlink_to("/nowhere/x")
    (top / "loop").symlink_to("loop")
    return top


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("to_file", "a/file"),
        ("to_b", "a/b"),
        ("to_b/new", "a/b/new"),
        ("to_b/../file", "a/file"),
        ("./to_b//new/", "a/b/new"),
        ("chain", "a/file"),
        ("a/../to_file", "a/file"),
    ],
)
def test_a_path_leads_where_its_links_do(top: Path, path: str, end: str) -> None:
    assert resolved([f"{top}/{path}"], "") == (f"{top}/{end}",)
    assert resolved([path], str(top)) == (f"{top}/{end}",)


@pytest.mark.parametrize("path", ["a/file", "a/b/../file", "a/new/../x", "loop", "loop/x", "."])
def test_a_path_that_leads_where_it_says_or_nowhere_is_left_out(top: Path, path: str) -> None:
    assert resolved([f"{top}/{path}"], "") == ()


def test_a_link_to_what_is_not_there_yet_is_followed(top: Path) -> None:
    assert resolved([f"{top}/dangling/y"], "") == ("/nowhere/x/y",)


def test_the_root_of_a_process_is_the_root() -> None:
    assert resolved(["/proc/self/root/etc/hostname"], "") == ("/etc/hostname",)


def test_what_only_a_shell_or_nobody_can_place_is_left_out(top: Path) -> None:
    assert resolved(["to_file", "~/x", "$HOME/x", "../x"], "") == ()
    assert resolved([f"{top}/\udcff/x", f"{top}/to_file/"], "") == (f"{top}/a/file",)


def test_what_lies_in_a_project_is_named_from_its_root(top: Path) -> None:
    (top / "web").symlink_to("a")
    (top / "a" / "out").symlink_to("../to_b")
    (top / "a" / "same").symlink_to("file")

    assert resolved(["file", "b/x", "out", "same"], f"{top}/web") == (
        f"{top}/web/b",
        f"{top}/web/file",
    )
    assert resolved(["../to_file"], f"{top}/web/b") == (f"{top}/a/to_file",)


def test_a_link_of_bytes_that_are_no_text_can_be_written_down(top: Path) -> None:
    (top / "odd").symlink_to("/x\udcff")

    assert resolved([f"{top}/odd"], "") == ("/x?",)


def test_what_is_mounted_from_elsewhere_is_not_looked_into(top: Path) -> None:
    foreign = frozenset({f"{top}/a"})

    assert Walk(foreign).end(f"{top}/to_b/../x") == f"{top}/a/x"
    (top / "a" / "link").symlink_to("/etc/shadow")
    assert Walk(foreign).end(f"{top}/a/link") == f"{top}/a/link"
    assert Walk(frozenset()).end(f"{top}/a/link") == "/etc/shadow"


def test_a_mount_is_noticed_when_it_comes_and_when_it_goes(top: Path) -> None:
    (top / "a" / "link").symlink_to("/nowhere")
    alone = ["unshare", "--user", "--map-root-user", "--mount"]

    done = subprocess.run(
        [*alone, sys.executable, "-c", MOUNTING, str(top / "a")],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines() == ["('/nowhere',)", "('',)", "('/nowhere',)"], done.stderr


def test_what_systemd_hides_is_not_taken_for_missing() -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount"]

    done = subprocess.run(
        [*alone, sys.executable, "-c", HIDING],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )

    first, second = done.stdout.splitlines()
    seen = "'/home/me/app/link', '/tmp/link'"
    assert first == f"({seen}) ({seen}, '~/x')", done.stderr
    assert second == str(Found({"/home/me/app/link": "/etc/shadow"}, ("~/x",)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_the_daemon_may_not_enter_is_hidden(top: Path) -> None:
    (top / "a" / "link").symlink_to("/etc/shadow")
    (top / "a").chmod(0o700)
    looking = f"""if True:
        import os
        from safetyd.agents.path_resolution import follow
        os.setuid(65534)
        print(follow(["{top}/a/link"], "").resolved == ("",), follow(["{top}/to_file"], "").hidden)
    """
    for folder in (top, *top.parents[:-1]):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp/pytest-of-root"):
            folder.chmod(0o755)

    done = subprocess.run(
        [sys.executable, "-c", looking], cwd=HERE, capture_output=True, text=True, check=False
    )

    assert done.stdout == f"True ('{top}/to_file',)\n", done.stderr


def test_looking_has_an_end(top: Path) -> None:
    for number in range(MAX_LINKS + 2):
        (top / f"l{number}").symlink_to(f"l{number + 1}")
    long = top / "long"
    long.symlink_to("/" + "/".join(["x" * 200] * 15))
    many = [f"{top}/a/{number}" for number in range(MAX_LOOKS)]

    assert resolved([f"{top}/l1"], "") == ()
    assert resolved([f"{top}/l2"], "") == (f"{top}/l{MAX_LINKS + 2}",)
    assert resolved([*many, f"{top}/to_file"], "") == (UNFOLLOWED,), "looks are used up"
    written = resolved([f"{long}/{number}" for number in range(20)], "")
    assert 1 < len(written) < 20
    assert written[-1] == UNFOLLOWED
    assert sum(map(len, written[:-2])) <= MAX_CHARS


def test_a_relative_path_starts_at_the_folder_of_the_proposal(top: Path) -> None:
    assert resolved(["file"], "", f"{top}/to_b/..") == (f"{top}/a/file",)
    assert resolved(["../to_file"], str(top), "a") == (f"{top}/a/file",)
    assert resolved(["new"], str(top), "to_b") == (f"{top}/a/b/new",)
    assert resolved([f"{top}/to_file"], "", "/nowhere") == (f"{top}/a/file",)
    assert resolved(["to_file"], "", "a") == ()
