"""The commands that install the service, with stand-ins for systemd's commands."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from safetyd.console.failure import Failure
from safetyd.console.service.service_installation import ServiceInstallation, ServicePlaces
from safetyd.console.service.service_manager import ServiceManager
from safetyd.console.service.service_unit import SYSTEM_CONFIG, DaemonCommand
from tests.checkout import ROOT
from tests.console.console_rig import Said, here
from tests.console.service.systemd_stand_in import SystemdStandIn

RELOAD = "systemctl --user daemon-reload"


class User:
    """A user with an empty home, on a machine with systemd."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.systemd = SystemdStandIn(folder / "bin")
        self.unit = self.home / ".config/systemd/user/safetyd.service"

    def safetyd(self, *words: str, **variables: str) -> Said:
        given = {"HOME": str(self.home), "PATH": self.systemd.path, **variables}
        return here(*words, **{"XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", **given})

    def install(self, *options: str) -> Any:
        done = self.safetyd("install-service", "--user", "--json", *options)
        return json.loads(done.stdout)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_a_unit_starts_this_installation_and_is_removed_without_a_trace(user: User):
    installed = user.safetyd("install-service", "--user")

    assert (installed.returncode, installed.stderr) == (0, "")
    program = Path(sys.executable).with_name("safetyd")
    data = user.home / ".local/state/safetyd"
    assert f"\nExecStart={program} run --data-dir {data}\n" in user.unit.read_text()
    assert user.systemd.calls == [RELOAD]

    user.systemd.forget()
    removed = user.safetyd("uninstall-service", "--user")

    assert (removed.returncode, removed.stderr) == (0, "")
    assert user.systemd.calls == ["systemctl --user disable --now safetyd.service", RELOAD]
    assert user.files() == [".local", ".local/state"]


def test_now_enables_and_starts_it_with_the_given_files(user: User):
    config = user.home / "my.toml"
    config.touch()

    found = user.install("--now", "--config", str(config), "--data-dir", str(user.home / "data"))

    assert (found["ok"], found["started"], found["wrote"]) == (True, True, [str(user.unit)])
    assert f"run --config {config} --data-dir {user.home / 'data'}\n" in user.unit.read_text()
    assert user.systemd.calls == [
        RELOAD,
        "systemctl --user enable safetyd.service",
        "systemctl --user restart safetyd.service",
    ]


def test_print_writes_nothing_and_needs_no_systemd(user: User):
    user.systemd.reply("systemctl", "exit 1")
    printed = user.safetyd("install-service", "--user", "--print")
    user.systemd.reply("systemctl", "exit 0")
    user.install()

    assert printed.stdout == user.unit.read_text()
    assert printed.returncode == 0


def test_without_systemd_nothing_is_written(user: User):
    user.systemd.reply("systemctl", "echo 'Failed to connect to bus' >&2; exit 1")

    found = user.install()

    assert (found["ok"], found["code"]) == (False, "no_systemd")
    assert "Failed to connect to bus" in found["error"]
    assert "--print" in found["error"]
    assert user.files() == []


def test_a_unit_that_systemd_does_not_accept_is_not_written(user: User):
    program = user.systemd.folder / "systemd-analyze"
    program.unlink()
    user.systemd.reply("systemd-analyze", "echo 'safetyd.service:7: Unknown key' >&2; exit 1")

    found = user.install()

    assert (found["code"], found["errors"]) == ("unit", ["safetyd.service:7: Unknown key"])
    assert user.files() == []


def test_the_same_again_changes_nothing_and_another_place_shows_the_difference(user: User):
    user.install()
    before = user.unit.read_text()

    assert user.install()["wrote"] == []
    assert user.unit.read_text() == before
    found = user.install("--data-dir", "/srv/data")
    assert found["wrote"] == [str(user.unit)]
    assert "\n+ExecStart=" in found["diff"]
    user.safetyd("uninstall-service", "--user")
    assert not user.unit.exists()


@pytest.mark.parametrize("first", ["ours", "somebody else's"])
def test_a_foreign_unit_is_replaced_only_by_force_and_then_restored(user: User, first: str):
    if first == "ours":
        user.install()
    user.unit.parent.mkdir(parents=True, exist_ok=True)
    user.unit.write_text("[Service]\nExecStart=/bin/true\n")

    refused = user.safetyd("install-service", "--user")

    assert refused.returncode == 1
    assert "\n-ExecStart=/bin/true\n" in refused.stdout
    assert user.unit.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert user.install("--force")["ok"]
    assert "ExecStart=/bin/true" not in user.unit.read_text()
    user.safetyd("uninstall-service", "--user")
    assert user.unit.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_a_changed_unit_is_removed_only_by_force(user: User):
    user.install()
    user.unit.write_text(user.unit.read_text() + "# mine\n")
    user.systemd.forget()

    refused = json.loads(user.safetyd("uninstall-service", "--user", "--json").stdout)

    assert (refused["code"], user.unit.exists(), user.systemd.calls) == ("changed", True, [])
    assert user.safetyd("uninstall-service", "--user", "--force").returncode == 0
    assert not user.unit.exists()


def test_a_service_of_somebody_else_is_not_removed(user: User):
    missing = json.loads(user.safetyd("uninstall-service", "--user", "--json").stdout)
    user.unit.parent.mkdir(parents=True)
    user.unit.touch()
    foreign = json.loads(user.safetyd("uninstall-service", "--user", "--json").stdout)

    assert missing["code"] == foreign["code"] == "not_installed"
    assert user.unit.exists()


def test_a_service_that_does_not_start_is_an_error_that_names_the_log(user: User):
    user.systemd.reply("systemctl", '[ "$2" != restart ] || { echo broken >&2; exit 1; }')

    found = user.install("--now")

    assert (found["ok"], found["code"]) == (False, "systemctl")
    assert "broken" in found["error"]
    assert "journalctl --user -u safetyd" in found["error"]


def test_a_missing_configuration_is_an_error(user: User):
    assert (
        str(user.home / "no.toml") in user.install("--config", str(user.home / "no.toml"))["error"]
    )
    assert user.files() == []


def test_a_user_learns_that_the_service_ends_at_logout(user: User):
    assert any("enable-linger" in said for said in user.install()["warnings"])
    user.systemd.reply("loginctl", "echo yes")
    assert not any("enable-linger" in said for said in user.install()["warnings"])


# -- for the system --------------------------------------------------------------------------------


class Machine:
    """The root folder of a machine, and safetyd installed in /opt/safetyd."""

    def __init__(self, folder: Path, prefix: str = "/usr") -> None:
        self.root = folder / "root"
        self.unit = self.root / "etc/systemd/system/safetyd.service"
        self.config = self.root / "etc/safetyd/safetyd.toml"
        places = ServicePlaces.of_system(self.root)
        manager = ServiceManager("system")
        self.service = ServiceInstallation("system", places, manager, [Path(prefix)])
        self.command = DaemonCommand(["/usr/bin/true"], SYSTEM_CONFIG, None)

    def install(self) -> None:
        self.service.write(self.service.planned(self.command), None)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemdStandIn:
    stand_in = SystemdStandIn(tmp_path / "bin")
    monkeypatch.setenv("PATH", stand_in.path)
    return stand_in


def test_the_system_gets_a_unit_a_user_and_a_configuration(tmp_path: Path, systemd: SystemdStandIn):
    machine = Machine(tmp_path)
    machine.install()

    made, *rest = systemd.calls if len(systemd.calls) > 1 else ("", *systemd.calls)
    assert made in {"", f"systemd-sysusers {ROOT / 'systemd/safetyd.sysusers'}"}
    assert rest == ["systemctl daemon-reload"]
    assert machine.config.read_bytes() == (ROOT / "config/production.toml").read_bytes()
    assert "ExecStart=/usr/bin/true run --config /etc/safetyd/safetyd.toml\n" in (
        machine.unit.read_text()
    )

    done = machine.service.undo(machine.service.undone(force=False))

    assert (set(done.removed), done.left) == ({machine.unit, machine.config}, [])
    assert not (machine.root / "etc").exists()


def test_a_changed_configuration_stays(tmp_path: Path, systemd: SystemdStandIn):
    machine = Machine(tmp_path)
    machine.install()
    machine.config.write_text('mode = "production"\n')

    done = machine.service.undo(machine.service.undone(force=False))

    assert (done.removed, done.left) == ([machine.unit], [machine.config])
    assert machine.config.read_text() == 'mode = "production"\n'


def test_the_unit_of_a_package_is_not_hidden_by_another(tmp_path: Path, systemd: SystemdStandIn):
    machine = Machine(tmp_path)
    packaged = machine.root / "usr/lib/systemd/system/safetyd.service"
    packaged.parent.mkdir(parents=True)
    packaged.touch()

    with pytest.raises(Failure) as refused:
        machine.install()
    assert refused.value.code == "packaged"


@pytest.mark.parametrize("prefix", ["/home/alice/venv", "/root/.local/share/uv/tools/safetyd"])
def test_a_program_that_the_unit_hides_is_refused(
    tmp_path: Path, systemd: SystemdStandIn, prefix: str
):
    with pytest.raises(Failure) as refused:
        Machine(tmp_path, prefix).install()

    assert refused.value.code == "hidden"
    assert prefix in refused.value.message
    assert systemd.calls == []


def warnings_at(prefix: str) -> list[str]:
    home = Path("/home/alice")
    places = ServicePlaces.of_user(home, {})
    service = ServiceInstallation("user", places, ServiceManager("user"), [Path(prefix)])
    return list(service.warnings({"UV_CACHE_DIR": "/somewhere/uv"}, home))


@pytest.mark.parametrize(
    "prefix", ["/home/alice/.cache/uv/archive-v0/x", "/somewhere/uv/x", "/var/tmp/venv"]
)
def test_a_temporary_installation_is_named(systemd: SystemdStandIn, prefix: str):
    systemd.reply("loginctl", "echo yes")

    [said] = warnings_at(prefix)
    assert prefix in said


@pytest.mark.parametrize("folder", ["uv/tools", "pipx/venvs"])
def test_a_lasting_installation_needs_no_warning(systemd: SystemdStandIn, folder: str):
    systemd.reply("loginctl", "echo yes")

    assert warnings_at(f"/home/alice/.local/share/{folder}/safetyd") == []


def test_only_root_can_install_for_the_system(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    found = json.loads(user.safetyd("install-service", "--system", "--json").stdout)

    assert found["code"] == "not_root"
