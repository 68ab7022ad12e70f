"""Which flags and files leave the hooks out, so that docs/hosts.md says what is true.

A push is tried, which nobody approves. If a newer version of a host changes a line here, change the
document, too.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.model_stand_in import Conversation
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

PUSH: Final = "git push origin main"


class Way(NamedTuple):
    """Options, files of the project, and lines that trust the project."""

    name: str
    leaves_out: bool
    options: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    trust: tuple[str, str] = ("", "")  # a text in the user's settings, and what replaces it


_OFF: Final = '{"disableAllHooks": true}'
_COPILOT: Final = {".github/copilot/settings.json": _OFF}
_CODEX: Final = {".codex/config.toml": "[features]\nhooks = false\n"}
_GEMINI: Final = {".gemini/settings.json": '{"hooksConfig": {"enabled": false}}'}
CODEX_TRUST: Final = ("# mine", '# mine\nprojects = {"@FOLDER@" = {trust_level = "trusted"}}')
GEMINI_TRUST: Final = ('"security": {', '"security": {"folderTrust": {"enabled": false}, ')

WAYS: Final = {
    "claude-code": (
        Way("settings.json", leaves_out=True, files={".claude/settings.json": _OFF}),
        Way("settings.local.json", leaves_out=True, files={".claude/settings.local.json": _OFF}),
        Way("--bare", leaves_out=True, options=("--bare",)),
        Way("--safe-mode", leaves_out=True, options=("--safe-mode",)),
        Way("--setting-sources", leaves_out=True, options=("--setting-sources", "project")),
        Way("--settings", leaves_out=True, options=("--settings", _OFF)),
    ),
    "codex": (
        Way("config.toml", leaves_out=False, files=_CODEX),
        Way("config.toml, trusted", leaves_out=True, files=_CODEX, trust=CODEX_TRUST),
        Way("-c", leaves_out=True, options=("-c", "features.hooks=false")),
        Way("--disable", leaves_out=True, options=("--disable", "hooks")),
    ),
    "gemini": (
        Way("settings.json", leaves_out=False, files=_GEMINI),
        Way("settings.json, trusted", leaves_out=True, files=_GEMINI, trust=GEMINI_TRUST),
    ),
    "copilot": (
        Way("settings.json", leaves_out=False, files=_COPILOT),
        Way("--trust-folder", leaves_out=True, files=_COPILOT, options=("--trust-folder",)),
    ),
    "opencode": (
        Way(
            "opencode.json, --pure",
            leaves_out=True,
            files={"opencode.json": '{"permission": {"bas*": "allow"}}'},
            options=("--pure",),
        ),
        Way(
            "opencode.json",
            leaves_out=False,
            files={"opencode.json": '{"permission": {"bas*": "allow"}}'},
        ),
    ),
}


def trust_project(home: HostHome, way: Way) -> None:
    """Change the user's settings so that the files of the project count."""
    for name in home.settings() if way.trust[0] else ():
        path, (old, new) = home.home / name, way.trust
        assert old in path.read_text()
        new = new.replace("@FOLDER@", str(home.project))
        path.write_text(path.read_text().replace(old, new))


def write_files(home: HostHome, way: Way) -> None:
    for name, text in way.files.items():
        (home.project / name).parent.mkdir(parents=True, exist_ok=True)
        (home.project / name).write_text(text)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(CONFIG)


@pytest.mark.parametrize(
    ("program", "way"),
    [
        pytest.param(program, way, id=f"{program.name}-{way.name}")
        for program in PROGRAMS
        for way in WAYS[program.host]
    ],
)
def test_the_hooks_with(
    program: Program,
    way: Way,
    daemon: RunningDaemon,
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", "left out" if way.leaves_out else "run")
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    with home.with_model():
        trust_project(home, way)
        run_safetyd(home, daemon, "protect", program.host, "--yes")
        write_files(home, way)
        home.talk(_push(home), *way.options)

    assert home.pushed() == way.leaves_out, home.output


def _push(home: HostHome) -> Conversation:
    yield home.host.shell(PUSH)
