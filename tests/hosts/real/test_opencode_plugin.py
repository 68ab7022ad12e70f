"""OpenCode runs nothing if the plugin that asks safetyd is not loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.conftest import StartDaemon
from tests.hosts.real.host_programs import PROGRAMS
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

OPENCODE: Final = [program for program in PROGRAMS if program.host == "opencode"]


@pytest.fixture(scope="module", params=OPENCODE, ids=lambda program: program.name)
def home(
    request: pytest.FixtureRequest,
    start_module_daemon: StartDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[HostHome]:
    home = HostHome(request.param, tmp_path_factory.mktemp("host"))
    with home.with_model():
        run_safetyd(home, start_module_daemon(CONFIG), "protect", "opencode", "--yes")
        yield home


def _break(plugin: Path) -> None:
    plugin.write_text("export const Safetyd = async (")


def _fail(plugin: Path) -> None:
    plugin.write_text('export const Safetyd = async () => { throw new Error("no") }\n')


def _keep(_plugin: Path) -> None:
    pass


def _tried(home: HostHome, name: str, *more: str) -> bool:
    """Return whether a command ran."""

    def conversation() -> Conversation:
        yield home.headless.shell(f"touch {name}")

    home.talk(conversation(), *more)
    return (home.project / name).exists()


@pytest.mark.parametrize(
    ("change", "options"),
    [
        pytest.param(_break, (), id="does not parse"),
        pytest.param(_fail, (), id="fails at the start"),
        pytest.param(Path.unlink, (), id="is missing"),
        pytest.param(Path.unlink, ("--auto",), id="is missing, with --auto"),
        pytest.param(_keep, ("--pure",), id="is left out by --pure"),
        pytest.param(_keep, ("--pure", "--auto"), id="is left out by --pure, with --auto"),
    ],
)
def test_nothing_runs_if_the_plugin(
    home: HostHome, change: Callable[[Path], None], options: tuple[str, ...]
) -> None:
    (name,) = home.host.added
    plugin = home.home / name
    text = plugin.read_text()
    change(plugin)
    try:
        assert not _tried(home, "ran", *options), home.output
    finally:
        plugin.write_text(text)


def test_with_the_plugin_it_runs(home: HostHome) -> None:
    assert _tried(home, "with-plugin"), home.output
