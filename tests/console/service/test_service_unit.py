"""Units for users and for the system, made from the shipped one and judged by systemd."""

import re
import subprocess
from pathlib import Path

import pytest

from safetyd.console.failure import WrongUsage
from safetyd.console.service.service_unit import (
    SYSTEM_CONFIG,
    DaemonCommand,
    Scope,
    unit_text,
    with_program,
)
from tests.checkout import ROOT
from tests.conftest import environment

SHIPPED = (ROOT / "systemd/safetyd.service").read_text()
SYSTEM = DaemonCommand(["/usr/bin/true"], SYSTEM_CONFIG, None)
USER = DaemonCommand(["/usr/bin/true"], None, Path("/home/alice/.local/state/safetyd"))


def directives(unit: str) -> list[str]:
    return [line for line in unit.splitlines() if line and line[0] not in "#["]


def verified(folder: Path, scope: Scope, unit: str) -> str:
    """Return what systemd says about a unit."""
    path = folder / "safetyd.service"
    path.write_text(unit)
    line = ["systemd-analyze", f"--{scope}", "verify", "--man=no", str(path)]
    variables = environment(XDG_RUNTIME_DIR=str(folder))
    done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_systems_unit_is_the_shipped_one_with_another_program():
    made, shipped = directives(unit_text("system", SYSTEM)), directives(SHIPPED)

    assert set(shipped) - set(made) == {
        "ExecStart=/opt/safetyd/bin/safetyd run --config /etc/safetyd/safetyd.toml"
    }
    assert set(made) - set(shipped) == {
        "ExecStart=/usr/bin/true run --config /etc/safetyd/safetyd.toml"
    }


def test_a_users_unit_has_nothing_that_needs_a_privilege_and_nothing_new():
    made = directives(unit_text("user", USER))

    assert set(made) - set(directives(SHIPPED)) == {
        "ExecStart=/usr/bin/true run --data-dir /home/alice/.local/state/safetyd",
        "WantedBy=default.target",
    }
    keys = {line.partition("=")[0] for line in made}
    assert not keys & {"User", "Group", "StateDirectory", "CapabilityBoundingSet", "ProtectHome"}
    assert {"Type", "WatchdogSec", "Restart", "KillMode", "SystemCallFilter", "LimitCORE"} <= keys


def test_every_comment_of_a_users_unit_has_its_directive():
    text = unit_text("user", USER)

    assert not re.search(r"#.*\n\n(?!\[Unit\])", text)
    assert "/var/lib/safetyd" not in text


@pytest.mark.parametrize(("scope", "command"), [("system", SYSTEM), ("user", USER)])
def test_systemd_accepts_both(tmp_path: Path, scope: Scope, command: DaemonCommand):
    assert verified(tmp_path, scope, unit_text(scope, command)) == ""


def test_another_data_directory_of_the_system_can_be_written(tmp_path: Path):
    unit = unit_text("system", SYSTEM._replace(data_dir=Path("/srv/safe tyd")))

    assert verified(tmp_path, "system", unit) == ""
    found = set(directives(unit))
    assert 'ReadWritePaths="/srv/safe tyd"' in found
    assert not any(line.startswith("StateDirectory") for line in found)
    [start] = [line for line in found if line.startswith("ExecStart=")]
    assert start.endswith('--data-dir "/srv/safe tyd"')


def test_systemd_reads_odd_paths_as_they_are(tmp_path: Path):
    """`systemd-analyze verify` looks for the program, so it must exist under exactly this name."""
    program = tmp_path / "50% of $my tools"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command = USER._replace(program=[str(program)])

    assert verified(tmp_path, "user", unit_text("user", command)) == ""
    other = USER._replace(data_dir=Path('/50% "$x\\y"'))
    assert unit_text("user", other).count('--data-dir "/50%% \\"$$x\\\\y\\""\n') == 1
    program.rename(tmp_path / "elsewhere")
    with pytest.raises(AssertionError, match="is not executable"):
        verified(tmp_path, "user", unit_text("user", command))


def test_a_path_that_no_unit_can_contain_is_refused():
    with pytest.raises(WrongUsage, match="control character"):
        unit_text("user", USER._replace(data_dir=Path("/a\nExecStartPre=/bin/sh")))


@pytest.mark.parametrize("name", ["safetyd.service", "user/safetyd-desktop.service"])
def test_every_shipped_unit_can_start_another_program(name: str):
    unit = with_program((ROOT / "systemd" / name).read_text(), "/usr/bin/safetyd")

    assert "/opt/" not in unit
    assert re.search(r"^ExecStart=/usr/bin/safetyd ", unit, re.MULTILINE)
