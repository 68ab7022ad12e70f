"""The real programs do only what safetyd allows, also while it is away.

Run with `make hosts`, which prints the matrix in docs/hosts.md.
"""

import json
import re
import sys
from contextlib import nullcontext
from typing import Any, Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.impostors import IMPOSTORS, impostor
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

PUSH: Final = "git push origin main"
AWAY: Final = ("stopped", *IMPOSTORS)

REQUEST: Final = re.compile(r"req_\w+")


class Session:
    """What was seen of one program, from `protect` to `unprotect`."""

    def __init__(self, home: HostHome, daemon: RunningDaemon) -> None:
        self.home = home
        self.results: dict[str, str] = {}  # that the model got, by what was tried
        self.pushed: list[bool] = []
        self.outcomes: list[Any] = []
        self._daemon = daemon
        with home.with_model():
            self.settings = home.settings()
            self.safetyd("protect", home.program.host, "--yes")
            self.protected = home.files()
            self.rehearsed = self._rehearsed()
            home.talk(self._guarded())
            self.outcomes = self._outcomes("touch harmless")
            daemon.stop()
            home.talk(self._closed())
            self.safetyd("unprotect", home.program.host, "--yes")
            self.unprotected = home.files()

    def ran(self, name: str) -> bool:
        return (self.home.project / name).exists()

    def _rehearsed(self) -> list[Any]:
        """Return the trials of a rehearsal."""
        host = self.home.program.host
        (state,) = json.loads(self.safetyd("verify", host, "--rehearse", "--json"))["hosts"]
        return [one for one in state["trials"] if one["claim"].startswith("rehearsal")]

    def _guarded(self) -> Conversation:
        shell, home = self.home.headless.shell, self.home.home
        self.results["harmless"] = yield shell("touch harmless")
        # Should a host run it, it ends there and not in anybody's real home.
        fenced = f'touch destructive; test "$HOME" = {home} && rm -rf ~'
        self.results["destructive"] = yield shell(fenced)
        self.results["push"] = yield shell(PUSH)
        self.pushed.append(self.home.pushed())
        (request,) = REQUEST.findall(self.results["push"])[:1]
        self.safetyd("approve", request)
        self.results["approved push"] = yield shell(PUSH)
        self.pushed.append(self.home.pushed())

    def _closed(self) -> Conversation:
        socket = self._daemon.data_dir / "hook.sock"
        for name in AWAY:
            other = nullcontext() if name == "stopped" else impostor(socket, IMPOSTORS[name])
            with other:
                self.results[name] = yield self.home.headless.shell(f"touch ran-{name}")

    def _outcomes(self, text: str) -> list[Any]:
        """Return what was reported about the call of a command."""
        listed = json.loads(self.safetyd("decisions", "--text", text, "--json"))["rows"]
        (call,) = (row["id"] for row in listed)
        outcomes: list[Any] = json.loads(self.safetyd("explain", call, "--json"))["outcomes"]
        return outcomes

    def safetyd(self, *arguments: str) -> str:
        return run_safetyd(self.home, self._daemon, *arguments)


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.name)
def session(
    request: pytest.FixtureRequest,
    start_module_daemon: StartDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> Session:
    program: Program = request.param
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    return Session(home, start_module_daemon(CONFIG))


def test_a_rehearsal_shows_that_the_host_honours_the_answers(session: Session) -> None:
    assert [trial["holds"] for trial in session.rehearsed] == [True, True, True]


def test_a_harmless_command_runs(session: Session) -> None:
    assert session.ran("harmless")


def test_a_destructive_command_does_not_run(session: Session) -> None:
    assert "destructive" in session.results
    assert not session.ran("destructive")


def test_the_reason_reaches_the_model(session: Session) -> None:
    assert "which is a home folder" in session.results["destructive"]
    assert sys.executable not in session.results["destructive"]


def test_a_push_runs_once_it_is_approved(session: Session) -> None:
    assert session.pushed == [False, True]


def test_the_outcome_is_reported(session: Session) -> None:
    assert [outcome["ok"] for outcome in session.outcomes] == [True]


@pytest.mark.parametrize("away", AWAY)
def test_nothing_runs_without_the_daemon(session: Session, away: str) -> None:
    assert "so this call is blocked" in session.results[away]
    assert not session.ran(f"ran-{away}")


def test_unprotect_restores_the_settings(session: Session) -> None:
    assert session.protected != session.settings
    assert session.unprotected == session.settings
