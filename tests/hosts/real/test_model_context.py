"""The models of Claude Code and Codex receive what safetyd says besides its answers.

A context does not change what the host itself permits.
"""

import re
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from safetyd.hosts.hook_answer import SESSION_CONTEXT
from tests.conftest import StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

_REQUEST: Final = re.compile(r"req_\w+")


class ContextSession:
    """A push is approved, and another call gets the news: with all permissions or without."""

    def __init__(self, home: HostHome, start: StartDaemon, *, permitted: bool) -> None:
        daemon = start(CONFIG)
        self.ran: list[bool] = []

        def conversation() -> Conversation:
            shell = home.headless.shell
            result = yield shell("git push origin main")
            (request,) = _REQUEST.findall(result)[:1]
            self.news = f"{request} was approved"
            run_safetyd(home, daemon, "approve", request)
            for name in ("with-news", "without-news"):
                self.result = yield shell(f"touch {name}")
                self.ran.append((home.project / name).exists())

        with home.with_model():
            run_safetyd(home, daemon, "protect", home.program.host, "--yes")
            home.talk(conversation(), permitted=permitted)
            self.heard = home.heard()


@pytest.fixture(
    params=[one for one in PROGRAMS if one.host in {"claude-code", "codex"}],
    ids=lambda program: program.name,
)
def program(request: pytest.FixtureRequest) -> Program:
    one: Program = request.param
    return one


@pytest.fixture
def home(program: Program, tmp_path_factory: pytest.TempPathFactory) -> HostHome:
    return HostHome(program, tmp_path_factory.mktemp("host"))


def test_the_model_receives_news_and_the_line_about_safetyd(
    home: HostHome, start_daemon: StartDaemon
) -> None:
    session = ContextSession(home, start_daemon, permitted=True)

    assert session.ran == [True, True]
    assert SESSION_CONTEXT in session.heard[0]
    assert not any(session.news in body for body in session.heard[:2])
    assert session.news in session.heard[2]


def test_news_do_not_change_what_the_host_permits(
    home: HostHome, start_daemon: StartDaemon
) -> None:
    session = ContextSession(home, start_daemon, permitted=False)

    assert session.ran == [False, False]
    assert session.news in session.heard[2]
