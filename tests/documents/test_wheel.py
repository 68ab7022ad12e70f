"""What `pip install safetyd` brings works far from any checkout, with just what it declares."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetyd import __version__
from safetyd.console.shipped_files import shipped_files
from tests.checkout import ROOT
from tests.locks import FRAMEWORKS
from tests.wheel_install import WheelInstall, build_wheel

REMEDY = "pip install 'safetyd[{}]'\n"
SMS = """
[notifications.sms]
enabled = true
to = "+15550100"
from = "+15550199"
account_sid = "AC0"
auth_token_file = "twilio.token"
"""
CHAT = '[[notifications.apprise]]\nname = "team"\nurl_file = "team.url"\n'
LEFT_OUT = {"twilio": "sms", "slack_sdk": "slack", "apprise": "chat", "textual": "tui"}
PROPOSE = """
from safetyd.client import SyncSafety

with SyncSafety("code") as safety:
    for text in ("rm -rf /", "make"):
        print(safety.propose("run_shell", text=text).decision)
    print(safety.propose("read_file", paths=["a.py"]).decision)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelInstall:
    return WheelInstall(tmp_path_factory.mktemp("whole"), wheel, "daemon")


@pytest.fixture(scope="module")
def slim(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelInstall:
    return WheelInstall(tmp_path_factory.mktemp("slim"), wheel, "server")


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelInstall:
    return WheelInstall(tmp_path_factory.mktemp("base"), wheel)


@pytest.fixture(scope="module")
def daemon(slim: WheelInstall) -> Iterator[WheelInstall]:
    """A daemon without any optional package."""
    with slim.daemon():
        yield slim


def test_the_metadata_has_author_and_licence(base: WheelInstall) -> None:
    told = base.metadata
    (licence,) = base.site.glob("safetyd-*.dist-info/licenses/LICENSE")

    assert (told["Version"], told["License-Expression"]) == (__version__, "Apache-2.0")
    assert told["Author"] == "The safetyd authors"
    assert "Typing :: Typed" in told.get_all("Classifier", [])
    assert "safety" in told["Keywords"].split(",")
    assert (base.site / "safetyd" / "py.typed").exists()
    assert "Copyright 2026 the safetyd authors\n" in licence.read_text()
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_has_all_documents(base: WheelInstall) -> None:
    share = base.site / "safetyd" / "share"
    inside = {path.relative_to(share).as_posix() for path in share.rglob("*") if path.is_file()}

    assert inside == {file.name for file in shipped_files(ROOT)}
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= inside
    configs = [path for path in (ROOT / "config").rglob("*") if path.is_file()]
    assert {path.relative_to(ROOT).as_posix() for path in configs} <= inside


def test_the_wheel_has_all_package_data(base: WheelInstall) -> None:
    here, there = ROOT / "safetyd", base.site / "safetyd"
    read = {
        path.relative_to(here)
        for kind in ("html", "css", "sql", "toml")
        for path in here.rglob(f"*.{kind}")
    }

    assert {path.suffix for path in read} == {".html", ".css", ".sql", ".toml"}
    assert [path for path in read if not (there / path).exists()] == []


def test_documents_are_listed_shown_and_found(base: WheelInstall) -> None:
    listed = base.safetyd("docs")
    shown = base.safetyd("docs", "operations")
    where = base.safetyd("docs", "systemd/safetyd.service", "--path")

    assert (listed.returncode, listed.stderr) == (0, "")
    assert re.search(r"^  docs/guards\.md +\S", listed.stdout, re.MULTILINE)
    assert shown.stdout == (ROOT / "docs" / "operations.md").read_text()
    assert Path(where.stdout.strip()).is_relative_to(base.site)


def test_a_shipped_configuration_can_be_installed(whole: WheelInstall, tmp_path: Path) -> None:
    put = tmp_path / "safetyd.toml"
    put.write_text(whole.safetyd("docs", "config/production.toml").stdout)

    assert put.read_text() == (ROOT / "config" / "production.toml").read_text()
    assert whole.safetyd("config", "check", str(put)).returncode == 0


def test_the_daemon_starts_and_answers(daemon: WheelInstall) -> None:
    blocked = daemon.safetyd("check", "code", "run_shell", "--text", "rm -rf /")
    doctor = daemon.safetyd("doctor")

    assert (blocked.returncode, blocked.stdout.partition(":")[0]) == (1, "BLOCKED")
    assert (doctor.returncode, doctor.stderr) == (0, "")


def test_the_demo_plays_a_scene(whole: WheelInstall, tmp_path: Path) -> None:
    said = whole.safetyd("demo", "--auto", "--scene", "1", TMPDIR=str(tmp_path))

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout


def test_an_agent_needs_only_the_base_package(base: WheelInstall, daemon: WheelInstall) -> None:
    said = base.python(PROPOSE, SAFETYD_DATA_DIR=str(daemon.data_dir))

    assert (said.stdout.split(), said.stderr) == (["block", "require_confirmation", "allow"], "")


@pytest.mark.parametrize(
    "command",
    [
        *("agents", "audit verify", "breakers", "budgets", "grants", "list", "log", "safe-mode"),
        *("notify channels", "resume --yes", "status", "suggestions", "transcripts", "types"),
        *(
            "ack",
            "agent list",
            "check code read_file",
            "config show",
            "docs",
            "operator list",
            "version",
        ),
    ],
)
def test_commands_for_a_daemon_need_only_the_base_package(
    base: WheelInstall, daemon: WheelInstall, command: str
) -> None:
    said = base.safetyd(*command.split(), SAFETYD_DATA_DIR=str(daemon.data_dir))

    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "extra"),
    [("run", "daemon"), ("demo", "daemon"), ("review", "tui"), ("desktop", "daemon")],
)
def test_a_command_with_missing_packages_says_what_to_install(
    base: WheelInstall, command: str, extra: str
) -> None:
    said = base.safetyd(command)

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith(f"safetyd: `safetyd {command}` needs ")
    assert said.stderr.endswith(REMEDY.format(extra))
    assert said.stderr.count("\n") == 1


def test_only_the_extra_daemon_has_the_optional_packages(
    whole: WheelInstall, slim: WheelInstall
) -> None:
    def has(install: WheelInstall) -> list[str]:
        return [module for module in LEFT_OUT if (install.site / module).exists()]

    assert (has(whole), has(slim)) == (list(LEFT_OUT), [])


def test_the_documented_numbers_of_packages_are_right(
    base: WheelInstall, slim: WheelInstall, whole: WheelInstall
) -> None:
    page = (ROOT / "docs/install.md").read_text()
    rows = re.findall(r"^\| `pip install (\S+)` \| .* \| (\d+) \| \d+ \|$", page, re.MULTILINE)

    numbers = [len(install.packages) for install in (base, slim, whole)]
    names = ["safetyd", "'safetyd[server]'", "'safetyd[daemon]'"]
    assert rows == [(name, str(number)) for name, number in zip(names, numbers, strict=True)]


@pytest.mark.parametrize(
    ("module", "table", "key"),
    [("twilio", SMS, "notifications.sms"), ("apprise", CHAT, "notifications.apprise.team")],
)
def test_a_channel_without_its_package_is_an_error_before_and_at_the_start(
    daemon: WheelInstall, whole: WheelInstall, tmp_path: Path, module: str, table: str, key: str
) -> None:
    config = tmp_path / "safetyd.toml"
    config.write_text(table)
    remedy = REMEDY.format(LEFT_OUT[module]).strip()
    missing = f"[{key}] is enabled, but {module} is not installed: run `{remedy}`"

    checked = daemon.safetyd("config", "check", str(config))
    started = daemon.safetyd("run", "--config", str(config), SAFETYD_DATA_DIR=str(tmp_path))
    (daemon.data_dir / "safetyd.toml").write_text(table)
    reloaded = daemon.safetyd("reload")
    (daemon.data_dir / "safetyd.toml").unlink()

    for refused in (checked, started, reloaded):
        assert (refused.returncode, missing in refused.stderr) == (1, True), refused.stderr
    assert daemon.safetyd("config", "show", str(config)).returncode == 0
    assert daemon.safetyd("check", "code", "read_file").returncode == 0
    assert whole.safetyd("config", "check", str(config)).returncode == 0


def test_the_review_screen_needs_only_its_extra(
    wheel: Path, tmp_path: Path, daemon: WheelInstall
) -> None:
    screen = WheelInstall(tmp_path, wheel, "tui")

    said = screen.safetyd("review", SAFETYD_DATA_DIR=str(daemon.data_dir))

    assert (said.returncode, "review needs a terminal" in said.stderr) == (2, True)


def test_the_mcp_server_needs_its_extra_and_the_mcp_proxy_does_not(
    base: WheelInstall, daemon: WheelInstall
) -> None:
    server = base.safetyd("mcp", SAFETYD_DATA_DIR=str(daemon.data_dir))
    proxy = base.safetyd("mcp", "proxy", "--", "true", SAFETYD_DATA_DIR=str(daemon.data_dir))

    assert (server.returncode, server.stdout) == (1, "")
    assert server.stderr.endswith("Run: pip install 'safetyd[mcp]'\n")
    assert (proxy.returncode, proxy.stderr) == (0, "")


def test_an_exporter_without_its_driver_says_what_to_install(
    whole: WheelInstall, tmp_path: Path
) -> None:
    (tmp_path / "dsn").write_text("dbname=safetyd")
    config = tmp_path / "safetyd.toml"
    config.write_text(f'[outlets.postgres]\ndsn_file = "{tmp_path / "dsn"}"\n')

    said = whole.safetyd("outlet", "status", "--config", str(config))

    assert said.returncode == 1
    assert "psycopg is not installed: run `pip install 'safetyd[postgres]'`" in said.stdout


def test_the_server_extra_and_the_base_do_not_overlap() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    channels = ["sms", "slack", "chat"]
    extras = ["daemon", "server", *channels, "rota", "tui", "mcp", "postgres", *FRAMEWORKS]
    assert list(project["optional-dependencies"]) == extras
    assert not set(project["dependencies"]) & set(project["optional-dependencies"]["server"])


def test_documents_name_only_extras_that_exist(base: WheelInstall) -> None:
    known = set(base.metadata.get_all("Provides-Extra", []))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "config").glob("*.toml")]
    named = {
        extra
        for page in pages
        for extras in re.findall(r"safetyd\[([\w,-]+)\]", page.read_text())
        for extra in extras.split(",")
    }

    assert {"daemon", "server", "sms"} <= named <= known


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_adapter_without_its_framework_says_what_to_install(
    base: WheelInstall, framework: str
) -> None:
    said = base.python(f"import safetyd.adapters.{framework.replace('-', '_')}")

    assert said.returncode == 1
    assert said.stderr.endswith(f"Run: pip install --upgrade 'safetyd[{framework}]'\n")
