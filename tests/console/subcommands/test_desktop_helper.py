"""`safetyd desktop` in a real session: what a daemon tells is shown, and buttons answer it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import anyio
import msgspec
import pytest

from safetyd.bus.nats_client import notice as notice_of
from safetyd.console.locations import Location
from safetyd.console.subcommands import desktop_helper as command
from safetyd.notify.desktop.desktop_buttons import ButtonOutcome, outcome
from safetyd.notify.desktop.desktop_channel import keep
from safetyd.notify.desktop.desktop_content import DesktopNotice
from safetyd.operators.contract.request_contract import ReviewResult
from tests.bus.peer import Peer
from tests.conftest import RunningDaemon, StartDaemon, environment, safetyd
from tests.filled import filled
from tests.journeys.asking_agent import Asker, waiting
from tests.notify.desktop.desktop_session import Session

PUBLIC_URL = "https://safety.example.com"
LINK = f"{PUBLIC_URL}/d/a1.xyz"
TELLING = f"""
[web]
port = 0
public_url = "{PUBLIC_URL}"
[notifications]
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.desktop]
helper = true
"""
WAIT_S = 60.0

pytestmark = [pytest.mark.usefixtures("measured"), pytest.mark.req("S3.26")]


class Helper:
    """`safetyd desktop` as a person starts it, with a browser that only takes notes."""

    def __init__(self, directory: Path, session: Session, daemon: RunningDaemon, *options: str):
        self._log = directory / "helper.log"
        self.opened = directory / "opened"
        browser = directory / "xdg-open"
        browser.write_text(f'#!/bin/sh\necho "$1" >{self.opened}\n')
        browser.chmod(0o755)
        path = f"{directory}:{os.environ['PATH']}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "safetyd", "desktop", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(
                    SAFETYD_DATA_DIR=str(daemon.data_dir), **session.variables | {"PATH": path}
                ),
            )
        self._wait_until_it_listens()

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, words: str, times: int = 1) -> None:
        until(lambda: self.said().count(words) >= times, self.said)

    def _wait_until_it_listens(self) -> None:
        try:
            self.wait_for("Showing notifications")
        except AssertionError:
            self.end(signal.SIGKILL)
            raise

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def until(happens: Callable[[], object], told: Callable[[], object] = str) -> None:
    end = monotonic() + WAIT_S
    while not happens():
        assert monotonic() < end, told()
        sleep(0.02)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


StartHelper = Callable[..., Helper]


@pytest.fixture
def start_helper(
    session: Session, daemon: RunningDaemon, tmp_path: Path
) -> Iterator[Callable[..., Helper]]:
    session.closed()
    started: list[Helper] = []

    def start(*options: str, of: RunningDaemon = daemon) -> Helper:
        started.append(Helper(tmp_path, session, of, *options))
        return started[-1]

    yield start
    for helper in started:
        helper.end()


def publish(daemon: RunningDaemon, event: dict[str, Any]) -> None:
    """Tell of an event as the daemon does."""
    key = daemon.data_dir / "keys" / "daemon.nk"
    with Peer(daemon.endpoint.bus, key, "_INBOX.daemon") as peer:
        subject = f"safety.v1.event.{event['event_type']}"
        peer.send(notice_of(subject.encode(), msgspec.json.encode(event)))
        peer.settle()


def ask(daemon: RunningDaemon, id_: str) -> str:
    """Let an agent ask for something, have helpers told, and return the request's id."""
    with Asker(daemon) as agent:
        asked = agent.propose(id_, text=f"git push origin {id_}")
    notice = DesktopNotice(
        delivery=f"dlv_{id_}",
        request_id=asked["request_id"],
        digest=asked["digest"].removeprefix("sha256:")[:12],
        summary=f"push {id_} by code",
        body=f"git push origin {id_}",
        actions=("review", "approve", "deny"),
        urgency="high",
        link=LINK,
    )
    publish(daemon, {"event_type": "DESKTOP_NOTICE", "notice": msgspec.to_builtins(notice)})
    return str(asked["request_id"])


def ended(daemon: RunningDaemon, request_id: str) -> dict[str, Any]:
    """Return how a request ended."""
    until(lambda: request_id not in {row["id"] for row in waiting(daemon)})
    rows = msgspec.json.decode(daemon.safetyd("log", "--json").stdout)["history"]
    found: dict[str, Any] = next(row for row in rows if row["request_id"] == request_id)
    return found


@pytest.mark.req("S3.35")
def test_what_an_agent_asks_is_shown_and_approved_on_a_desktop(
    session: Session, start_daemon: StartDaemon, start_helper: StartHelper
) -> None:
    daemon = start_daemon("[notifications.desktop]\nhelper = true\n")
    helper = start_helper(of=daemon)

    with Asker(daemon) as agent:
        asked = agent.propose("shown", urgency="high")
    offered = session.press("Approve")
    row = ended(daemon, asked["request_id"])
    told = msgspec.json.decode(daemon.safetyd("notify", "outbox", "--json").stdout)
    code = helper.end()

    assert offered == ["Review", "Approve", "Deny"]
    assert (row["decision"], row["decided_via"]) == ("approved", "desktop")
    assert [(sent["channel"], sent["state"]) for sent in told["deliveries"]] == [
        ("desktop", "delivered")
    ]
    assert code == 0


def test_button_answers_and_the_outcome_is_shown(
    session: Session, daemon: RunningDaemon, start_helper: StartHelper
) -> None:
    start_helper()
    request_id = ask(daemon, "denied")

    session.press("Deny")
    row = ended(daemon, request_id)

    session.wait_for_shown("Denied. The agent received your answer.")
    assert (row["decision"], row["decided_via"], row["decided_by"]) == (
        "denied",
        "desktop",
        "local",
    )


def test_question_that_was_answered_elsewhere_goes(
    session: Session, daemon: RunningDaemon, start_helper: StartHelper
) -> None:
    start_helper()
    request_id = ask(daemon, "elsewhere")
    session.wait_for_count(1)

    daemon.safetyd("deny", request_id)

    session.wait_for_count(0)


def test_click_opens_the_page(
    session: Session, start_daemon: StartDaemon, start_helper: StartHelper
) -> None:
    daemon = start_daemon(TELLING)
    helper = start_helper(of=daemon)
    with Asker(daemon) as agent:
        asked = agent.propose("opened", text="git push origin opened", urgency="high")
    session.wait_for_count(1)

    session.click()
    until(lambda: helper.opened.exists() and helper.opened.read_text())

    assert helper.opened.read_text().startswith(PUBLIC_URL + "/d/")
    assert asked["request_id"] in {row["id"] for row in waiting(daemon)}


def test_answer_that_the_daemon_does_not_hear_is_asked_for_again(
    session: Session, daemon: RunningDaemon, start_helper: StartHelper
) -> None:
    helper = start_helper()
    request_id = ask(daemon, "twice")
    session.wait_for_count(1)

    daemon.stop()
    helper.wait_for(f"`safetyd run --data-dir {daemon.data_dir}`")
    session.press("Approve")
    helper.wait_for("not connected to safetyd")
    daemon.start()
    helper.wait_for("Showing notifications", times=2)
    session.press("Approve")

    assert ended(daemon, request_id)["decision"] == "approved"


def test_helper_that_ends_takes_its_questions_along(
    session: Session, daemon: RunningDaemon, start_helper: StartHelper
) -> None:
    helper = start_helper()
    ask(daemon, "left")
    session.wait_for_count(1)

    code = helper.end(signal.SIGINT)

    session.wait_for_count(0)
    assert code == 0


def test_once_ends_when_the_message_was_closed(
    session: Session, daemon: RunningDaemon, start_helper: StartHelper
) -> None:
    helper = start_helper("--once")
    request_id = ask(daemon, "closed")

    session.dismiss()

    assert helper.process.wait(WAIT_S) == 0
    assert request_id in {row["id"] for row in waiting(daemon)}


def test_message_that_cannot_be_read_or_shown_is_said_and_survived(
    session: Session, daemon: RunningDaemon, start_helper: StartHelper
) -> None:
    helper = start_helper()

    publish(daemon, {"event_type": "DESKTOP_NOTICE", "notice": {"summary": 1}})
    helper.wait_for("invalid notification")
    session.kill("dunst")
    ask(daemon, "unseen")
    helper.wait_for("cannot show a notification")
    session.start_dunst()
    ask(daemon, "seen")

    session.wait_for_count(1)


def test_without_a_session_it_says_what_to_do(daemon: RunningDaemon) -> None:
    nowhere = {"DBUS_SESSION_BUS_ADDRESS": "", "XDG_RUNTIME_DIR": ""}

    ran = safetyd("desktop", SAFETYD_DATA_DIR=str(daemon.data_dir), **nowhere)

    assert ran.returncode == 1
    assert "no desktop session" in ran.stderr
    assert "systemctl --user enable --now safetyd-desktop" in ran.stderr


def test_key_that_cannot_be_used_ends_it(session: Session, daemon: RunningDaemon) -> None:
    ran = daemon.safetyd("desktop", "--key-file", "/nonexistent.nk", **session.variables)

    assert ran.returncode == 1
    assert "/nonexistent.nk" in ran.stderr


async def test_more_than_can_be_done_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing() -> None:
        """Stand for something to be done."""

    async with anyio.create_task_group() as tasks:
        helper = command.Helper(Location(data_dir=tmp_path), "", tasks, once=False)
        done = [helper._do(nothing) for _ in range(command.MOST + 1)]
        await helper.close()

    assert done == [*[True] * command.MOST, False]
    assert "some were dropped" in capsys.readouterr().err


async def test_only_buttons_of_what_is_shown_answer(tmp_path: Path) -> None:
    notice = DesktopNotice(delivery="dlv_1", request_id="req_1", summary="", body="")

    async with anyio.create_task_group() as tasks:
        helper = command.Helper(Location(data_dir=tmp_path), "", tasks, once=False)
        keep(helper._shown, notice)
        helper._pressed("req_2", "approve")
        helper._pressed("req_1", "snooze")
        await helper._withdraw("req_2")
        waiting_jobs = helper._todo.statistics().current_buffer_used
        await helper.close()

    assert waiting_jobs == 0


async def test_observer_may_look_and_not_answer(tmp_path: Path) -> None:
    location = Location(data_dir=tmp_path, key_file=tmp_path / "keys" / "observers" / "bob.nk")
    notice = DesktopNotice(
        delivery="dlv_1", summary="", body="", actions=("review", "approve", "deny")
    )

    async with anyio.create_task_group() as tasks:
        helper = command.Helper(location, "", tasks, once=False)
        own = helper._own(notice)
        await helper.close()

    assert own.actions == ()


# -- outcomes --------------------------------------------------------------------------------------

FIRST = {"by": "alice", "via": "cli", "at": "2026-03-02T14:02:00Z"}
WHO = "By alice via cli at 2026-03-02 14:02:00Z"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"ok": True}, ButtonOutcome("Approved. The agent received your answer.")),
        (
            {"ok": True, "held": "stopped"},
            ButtonOutcome("Approved, but still blocked.", "Why: stopped"),
        ),
        (
            {"ok": False, "code": "already_decided", "decision": "approved", **FIRST},
            ButtonOutcome("Already approved.", WHO),
        ),
        (
            {"ok": False, "code": "already_decided", "decision": "denied", **FIRST},
            ButtonOutcome("Already denied. Your answer was NOT applied.", WHO),
        ),
        (
            {"ok": False, "code": "already_decided", "decision": "superseded"},
            ButtonOutcome("Already superseded. Your answer was NOT applied."),
        ),
        (
            {"ok": False, "code": "expired"},
            ButtonOutcome("Too late.", "Nobody answered in time, so the action was not allowed."),
        ),
        (
            {"ok": False, "code": "digest_mismatch", "error": "look again"},
            ButtonOutcome("Not recorded.", "look again"),
        ),
    ],
)
def test_outcome_says_whether_the_answer_counts(
    result: dict[str, Any], said: ButtonOutcome
) -> None:
    assert outcome("approve", filled(ReviewResult, **result)) == said


def test_denial_is_not_held_back() -> None:
    assert outcome("deny", ReviewResult(id="r", ok=True, held="denied")).summary == (
        "Denied. The agent received your answer."
    )
