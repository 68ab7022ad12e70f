"""The screen on which people review, driven by its keys against a real daemon."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual.events import Key
from textual.pilot import Pilot

from safetyd.bus.keyring import Keyring
from safetyd.console.locations import Location
from safetyd.console.review.screen import ReviewScreen, _approval
from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.servers import until

Reply = dict[str, Any]

TERMINAL = (80, 24)
PUSH: Reply = {
    "type": "push",
    "text": "git push origin fix-auth",
    "description": "Push the fix",
    "rationale": "All tests pass",
    "context": {
        "branch": "fix-auth",
        "files_changed": 3,
        "additions": 42,
        "deletions": 18,
        "diff": "--- a/auth.py\n+++ b/auth.py\n-old = 1\n+new = 2",
    },
}


@pytest.fixture(scope="module")
def shared(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(UNLIMITED)


@pytest.fixture
def daemon(shared: RunningDaemon) -> Iterator[RunningDaemon]:
    """A daemon for which nothing waits, before and after."""
    yield shared
    if ids := [row["id"] for row in person(shared, "query", "pending")["requests"]]:
        person(shared, "review", "cancel", ids=ids)


def person(daemon: RunningDaemon, verb: str, command: str, **fields: object) -> Reply:
    key = daemon.data_dir / "keys" / "operator.nk"
    payload = json.dumps({"command": command, **fields}).encode()
    with Peer(daemon.endpoint.bus, key, "_INBOX.op.local") as peer:
        reply: Reply = peer.ask(f"safety.v1.{verb}.local", payload).fields
    return reply


def ask(daemon: RunningDaemon, agent: str, **fields: object) -> str:
    """Propose something that needs approval and return the request's id."""
    payload = json.dumps({**PUSH, **fields}).encode()
    with Peer(daemon.endpoint.bus) as peer:
        decision = peer.ask(f"safety.v1.propose.{agent}", payload).fields
    assert decision["decision"] == "require_confirmation"
    return str(decision["request_id"])


def ended(daemon: RunningDaemon) -> dict[str, Reply]:
    rows = person(daemon, "query", "history")["history"]
    return {row["request_id"]: row for row in rows}


class Reviewer:
    """A person before the screen."""

    def __init__(self, app: ReviewScreen, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def screen(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def types_ahead(self, *typed: str) -> None:
        """Press keys as fast as a machine can, so that all wait before the first is heard."""
        for key in typed:
            self.app.post_message(Key(key, key if len(key) == 1 else None))
        await self._pilot.pause()

    async def type(self, words: str) -> None:
        await self.press(*("space" if char == " " else char for char in words))

    async def sees(self, *words: str) -> None:
        try:
            await until(lambda: all(word in self.screen for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} is not on the screen:\n{self.screen}") from None

    async def sees_no(self, words: str) -> None:
        await until(lambda: words not in self.screen)


@asynccontextmanager
async def reviewing(
    daemon: RunningDaemon, size: tuple[int, int] = TERMINAL, **location: Any
) -> AsyncIterator[Reviewer]:
    app = ReviewScreen(Location(data_dir=daemon.data_dir, **location))
    async with app.run_test(size=size) as pilot:
        yield Reviewer(app, pilot)


@pytest.mark.req("S3.28")
@pytest.mark.req("S3.48")
@pytest.mark.parametrize(
    "size", [TERMINAL, (120, 40), (200, 50)], ids=["80x24", "120x40", "200x50"]
)
async def test_the_screen_shows_what_waits_and_why(daemon, size):
    ask(daemon, "code", urgency="high", timeout_s=600)
    ask(daemon, "ops", text="git push origin main")

    async with reviewing(daemon, size) as reviewer:
        await reviewer.sees("2 pending, 1 of high urgency")
        await reviewer.sees("high", "9:5", "code", "push: git push origin fix-auth")
        await reviewer.sees("push by code (req_", "high urgency, high risk", "left, until ")
        await reviewer.sees("[a] approve", "[d] deny", "[v] view diff", "[q] quit")

        rows = reviewer.screen.splitlines()

    assert len(rows) == size[1]
    assert all(len(row) <= size[0] for row in rows)


@pytest.mark.parametrize(
    ("key", "verb", "state"), [("a", "Approve", "approved"), ("d", "Deny", "denied")]
)
async def test_an_answer_is_confirmed_with_a_message_before_it_is_sent(daemon, key, verb, state):
    request = ask(daemon, verb)

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)")
        await reviewer.press(key)
        await reviewer.sees(f"{verb} 1 request?", request, "digest ")
        assert request not in ended(daemon)
        await reviewer.type("looks clear")
        await reviewer.press("enter")
        await reviewer.sees("No pending requests.", f"{request}: {state}")

    answer = ended(daemon)[request]
    assert (answer["decision"], answer["words"]) == (state, "looks clear")
    assert answer["decided_via"] == "tui"


async def test_what_is_marked_is_answered_together_and_nothing_else(daemon):
    requests = [ask(daemon, "many", text=f"git push origin fix-{number}") for number in range(3)]

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("3 pending")
        await reviewer.press("space", "j", "space", "d")
        await reviewer.sees("Deny 2 requests?", requests[0], requests[2])
        await reviewer.press("enter")
        await reviewer.sees("1 pending", "2 of 2 answered")

    left = person(daemon, "query", "pending")["requests"]
    assert [row["id"] for row in left] == [requests[1]]


async def test_a_filter_hides_the_rest_also_from_answers(daemon):
    kept = ask(daemon, "kept")
    ask(daemon, "ops", text="git push origin main")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("2 pending")
        await reviewer.press("space", "slash")
        await reviewer.type("OPS")
        await reviewer.sees_no("git push origin fix-auth")
        await reviewer.press("enter", "d")
        await reviewer.sees("Deny 1 request?", "git push origin main")
        await reviewer.press("enter")
        await reviewer.sees("1 pending")
        await reviewer.press("escape")
        await reviewer.sees(f"({kept}, pending)")


async def test_the_list_does_not_wrap_at_its_ends(daemon):
    first, second = ask(daemon, "one", urgency="high"), ask(daemon, "two")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("2 pending", f"({first}, pending)", " >high")
        await reviewer.press("k")
        assert reviewer.app._queue.highlighted == 0
        await reviewer.press("down")
        await reviewer.sees(f"({second}, pending)", " >normal")
        await reviewer.press("j", "down", "space")
        assert reviewer.app._queue.highlighted == 1


async def test_keys_typed_ahead_reach_the_dialog_that_was_asked_for_and_no_other(daemon):
    first, second = ask(daemon, "one", urgency="high"), ask(daemon, "two")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees(f"({first}, pending)")
        await reviewer.types_ahead("a", "j", "d")
        await reviewer.sees("Approve 1 request?", first)
        assert "Deny" not in reviewer.screen
        assert len(reviewer.app.screen_stack) == 2
        await reviewer.press("enter")
        await reviewer.sees(f"{first}: approved", "1 pending")

    assert person(daemon, "query", "request", id=second)["request"]["state"] == "pending"


async def test_keys_typed_while_a_page_opens_answer_nothing(daemon):
    request = ask(daemon, "typist")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees(f"({request}, pending)")
        await reviewer.types_ahead("t", "d")
        await reviewer.sees("Sessions, the newest first")
        assert len(reviewer.app.screen_stack) == 2
        await reviewer.press("escape")
        await reviewer.sees("1 pending")
        assert len(reviewer.app.screen_stack) == 1


async def test_keys_typed_after_a_refused_approval_answer_nothing(daemon):
    lines = "\n".join(f"+line {number:05}" for number in range(2_000))
    request = ask(daemon, "writer", context={"diff": lines})

    async with reviewing(daemon, (100, 40)) as reviewer:
        await reviewer.sees("by writer (req_")
        await reviewer.types_ahead("a", "o", "k", "d", "g")
        await reviewer.sees(f"NOT APPROVED: {request}")
        assert len(reviewer.app.screen_stack) == 2
        await reviewer.press("enter")
        await reviewer.sees_no("NOT APPROVED")

    assert person(daemon, "query", "request", id=request)["request"]["state"] == "pending"


async def test_answer_is_for_what_was_shown_when_the_key_was_pressed(daemon):
    gone = ask(daemon, "gone", urgency="high")
    other = ask(daemon, "other")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees(f"({gone}, pending)")
        await reviewer.press("d")
        person(daemon, "review", "cancel", ids=[gone])
        await until(lambda: len(reviewer.app.feed.waiting.rows) == 1)
        await reviewer.sees("Deny 1 request?", gone)
        await reviewer.press("enter")
        await reviewer.sees(f"{gone}: NOT ANSWERED")

    assert person(daemon, "query", "request", id=other)["request"]["state"] == "pending"


async def test_page_that_opens_before_its_request_is_known_is_filled(daemon):
    ask(daemon, "early", urgency="high")
    ask(daemon, "two", text="git push origin second")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("by early (req_")
        await reviewer.types_ahead("j", "v")
        await reviewer.sees("exact text", "| git push origin second")


async def test_where_nothing_waits_no_key_asks_anything(daemon):
    async with reviewing(daemon) as reviewer:
        await reviewer.sees("No pending requests.")
        await reviewer.press("a", "d", "g", "v", "space", "j", "k")
        await reviewer.sees("0 pending", "No pending requests.")


async def test_requests_come_and_go_by_themselves(daemon):
    async with reviewing(daemon) as reviewer:
        await reviewer.sees("No pending requests.")
        request = ask(daemon, "late", text="git push origin late")
        await reviewer.sees("1 pending", "git push origin late")
        person(daemon, "review", "deny", ids=[request])
        await reviewer.sees("0 pending", "No pending requests.")


async def test_the_second_answer_is_told_of_the_first(daemon):
    request = ask(daemon, "second")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)")
        await reviewer.press("a")
        await reviewer.sees("Approve 1 request?")
        person(daemon, "review", "deny", ids=[request])
        await reviewer.press("enter")
        await reviewer.sees("NOT ANSWERED: already denied by local via cli")


async def test_an_approval_is_only_for_what_was_shown(daemon):
    ask(daemon, "exact")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending")
        (row,) = reviewer.app.feed.waiting.rows
        other = msgspec.structs.replace(row, digest="sha256:" + "0" * 64)
        result = await reviewer.app.feed.answer(_approval(other))

    assert (result.ok, result.code) == (False, "digest_mismatch")


async def test_an_approval_that_a_stop_holds_back_says_so(daemon):
    ask(daemon, "halted")
    person(daemon, "control", "stop", agent="halted")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)")
        await reviewer.press("a", "enter")
        await reviewer.sees("approved, but HELD for now: stopped")

    person(daemon, "control", "resume", agent="halted")


async def test_a_grant_is_given_with_an_approval(daemon):
    request = ask(daemon, "often")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)", "[g] grant")
        await reviewer.press("g")
        await reviewer.sees("Approve, and grant", request, "maximum number of uses")
        await reviewer.sees("maximum number of uses", "maximum number of hours")
        await reviewer.press("end", "backspace", "3", "enter")
        await reviewer.sees("0 pending", f"{request}: approved, with grant")

    (grant,) = person(daemon, "query", "grants")["grants"]
    assert (grant["agent"], grant["type"], grant["uses"]) == ("often", "push", 3)
    assert not grant["wide"]


async def test_an_unknown_program_is_granted_with_an_approval(daemon):
    said = daemon.safetyd("check", "newcomer", "run_shell", "--text", "acmectl lint a", "--json")
    request = json.loads(said.stdout)["request_id"]

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)", "[g] grant")
        await reviewer.press("g")
        await reviewer.sees(": acmectl lint a", "acmectl lint with any arguments")
        await reviewer.press("tab", "tab", "space", "shift+tab", "enter")
        await reviewer.sees("0 pending", f"{request}: approved, with grant")

    again = daemon.safetyd("check", "newcomer", "run_shell", "--text", "acmectl lint b --all")
    assert again.returncode == 0


async def test_a_grant_of_no_uses_is_not_sent(daemon):
    ask(daemon, "never")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)", "[g] grant")
        await reviewer.press("g")
        await reviewer.sees("number of hours")
        await reviewer.press("end", "backspace", "0", "enter")
        await reviewer.sees("number of hours")
        await reviewer.press("escape")
        await reviewer.sees("1 pending")


async def test_a_grant_may_hold_in_the_session_of_the_request_alone(daemon):
    request = ask(daemon, "seated", session="s-7", context=None)

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)", "[g] grant", "[t] sessions")
        await reviewer.press("g")
        await reviewer.sees("only in session s-7", "[Space] tick")
        await reviewer.sees("[ ] only in session s-7")
        await reviewer.press("tab", "tab", "space")
        await reviewer.sees("[x] only in session s-7")
        await reviewer.press("shift+tab", "enter")
        await reviewer.sees("0 pending", f"{request}: approved, with grant")

    # The approval is for the first of them, wherever it is; then the grant is for its session.
    with Peer(daemon.endpoint.bus) as peer:
        pushes = [{**PUSH, "context": None, "session": name} for name in ("s-8", "s-7", "s-8")]
        decisions = [
            peer.ask("safety.v1.propose.seated", json.dumps(push).encode()) for push in pushes
        ]
    said = [decision.fields["decision"] for decision in decisions]
    assert said == ["allow", "allow", "require_confirmation"]


async def test_a_request_is_put_off_until_a_time_on_the_readers_clock(daemon):
    request = ask(daemon, "later")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("1 pending", ", pending)", "[s] defer")
        await reviewer.press("s")
        await reviewer.sees("Defer 1 request?", request, "in your time zone")
        await reviewer.type("soon")
        await reviewer.press("enter")
        await reviewer.sees("'soon'")
        await reviewer.press(*["backspace"] * 4, "2", "h", "enter")
        await reviewer.sees(f"{request}: deferred", "later  later")

    assert person(daemon, "query", "request", id=request)["request"]["until"]


async def test_the_top_says_how_everything_is_as_it_changes(daemon):
    ask(daemon, "code")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees(" NORMAL  Review as local: 1 pending, the oldest for ")
        person(daemon, "control", "pause", agent="ops", reason="lunch")
        await reviewer.sees(" PAUSED  ops by local since ", ": lunch")
        person(daemon, "control", "safe_mode_enter", agent="code", reason="drill")
        await reviewer.sees(" SAFE MODE  code by local since ", ": drill")
        person(daemon, "control", "stop", reason="fire")
        await reviewer.sees(" STOPPED  everything by local's command since ", ": fire")
        person(daemon, "control", "resume")
        person(daemon, "control", "safe_mode_exit", agent="code", force=True, reason="over")
        person(daemon, "control", "unpause", agent="ops")
        await reviewer.sees(" NORMAL  Review as local")


async def test_the_card_of_another_request_begins_at_its_top(daemon):
    ask(daemon, "long", urgency="high")
    ask(daemon, "next")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees(" by long (req_", "required by")
        await reviewer.press("pagedown")
        await reviewer.sees_no("by long (req_")
        await reviewer.press("j")
        await reviewer.sees("by next (req_")


async def test_parts_of_a_command_that_do_not_pass_are_underlined(daemon):
    daemon.safetyd("check", "shell", "run_shell", "--text", "ls; acmectl lint", "--json")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("  | ls; acmectl lint", "parts that need approval", "`acmectl lint`: ")
        strips = reviewer.app.screen._compositor.render_strips()
        (row,) = (strip for strip in strips if "| ls; acmectl lint" in strip.text)

    underlined = [segment.text for segment in row if segment.style and segment.style.underline]
    assert underlined == ["acmectl lint"]


async def test_what_is_cut_on_the_card_is_not_approved_before_all_of_it_was_opened(daemon):
    lines = "\n".join(f"+line {number:05}" for number in range(2_000))
    request = ask(daemon, "writer", context={"diff": lines})

    async with reviewing(daemon, (100, 40)) as reviewer:
        await reviewer.sees("by writer (req_")
        await reviewer.press("a")
        await reviewer.sees(f"NOT APPROVED: {request}: ")
        await reviewer.press("g")
        await reviewer.sees_no("Approve, and grant")
        await reviewer.press("v", "end")
        await reviewer.sees("+line 01999")
        await reviewer.press("escape", "a")
        await reviewer.sees("Approve 1 request?")
        await reviewer.press("enter")
        await reviewer.sees(f"{request}: approved")


async def test_of_marked_requests_those_that_nobody_read_are_not_approved(daemon):
    long = ask(daemon, "writer", text="git push " + "x" * 300)
    short = ask(daemon, "ops", text="git push", context=None, paths=[], urgency="high")

    async with reviewing(daemon, (100, 40)) as reviewer:
        await reviewer.sees("2 pending", "by ops (req_")
        reviewer.app._marked = {long, short}
        await reviewer.press("a")
        await reviewer.sees(f"NOT APPROVED: {long}: ")
        await reviewer.press("escape", "j")
        await reviewer.sees("by writer (req_")
        await reviewer.press("a")
        await reviewer.sees("Approve 2 requests?")
        await reviewer.press("enter")
        await reviewer.sees("No pending requests.")


@pytest.mark.req("S3.43")
async def test_what_sessions_did_is_shown(daemon):
    with Peer(daemon.endpoint.bus) as peer:
        read = b'{"type": "read_file", "description": "Read the notes", "session": "s-1"}'
        peer.ask("safety.v1.propose.nightly", read)
        over = b'{"type": "session_ended", "session": "s-1"}'
        assert peer.ask("safety.v1.telemetry.nightly", over).fields["ok"]
    await until(lambda: list((daemon.data_dir / "transcripts").glob("*.json")))

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("0 pending")
        await reviewer.press("t")
        await reviewer.sees("Session s-1 of nightly completed", "- Read the notes")


@pytest.mark.req("S3.48")
async def test_the_diff_is_viewed_on_the_whole_screen(daemon):
    ask(daemon, "differ")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees(", pending)")
        await reviewer.press("v")
        await reviewer.sees("exact text", "  | -old = 1", "  | +new = 2")
        await reviewer.press("escape")
        await reviewer.sees("1 pending")


async def test_help_names_every_key(daemon):
    async with reviewing(daemon) as reviewer:
        await reviewer.press("question_mark")
        await reviewer.sees("a        approve", "space    mark", "q        quit")
        await reviewer.sees("counts.")


async def test_words_of_an_agent_can_neither_steer_the_screen_nor_pass_for_ours(daemon):
    forged = "x" * 200 + "\nreq_0 (approved): safe\x1b[2J\u202e [red]loud[/red] [@click=q]"
    ask(daemon, "sly", text=forged, description="\x9b31m", rationale="[bold]trust me[/]\x07")

    async with reviewing(daemon, (80, 60)) as reviewer:
        await reviewer.sees("  | [bold]trust me[/]\\x07")
        card = reviewer.screen
        await reviewer.press("v")
        await reviewer.sees("  | req_0 (approved): safe\\x1b[2J\\u202e [red]loud[/red] [@click")
        page = reviewer.screen
        await reviewer.press("escape", "a")
        await reviewer.sees("Approve 1 request?")
        dialog = reviewer.screen

    for screen in (card, page, dialog):
        assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(screen)
    ours = [row.strip() for row in page.splitlines()[1:-1] if row[1:5] not in {"  | ", "  + "}]
    assert not any("approved" in row or "loud" in row or "trust" in row for row in ours)


async def test_a_daemon_that_comes_back_is_found_again(start_daemon: StartDaemon):
    daemon = start_daemon(UNLIMITED)
    ask(daemon, "code", urgency="high")
    ask(daemon, "ops")

    async with reviewing(daemon) as reviewer:
        await reviewer.sees("2 pending", "by code (req_")
        daemon.stop()
        await reviewer.sees("DISCONNECTED", "reconnecting")
        await reviewer.press("j", "v")
        await reviewer.sees("not connected")
        await reviewer.press("escape", "d", "enter")
        await reviewer.sees("NOT CONFIRMED: not connected")
        daemon.start()
        await reviewer.sees("Review as local: 2 pending")
        await reviewer.press("d", "enter")
        await reviewer.sees("1 pending")


async def test_an_observer_looks_and_cannot_answer(start_daemon: StartDaemon):
    daemon = start_daemon(UNLIMITED)
    Keyring(daemon.data_dir / "keys").add("observers", "wall")
    assert person(daemon, "control", "reload")["ok"]
    ask(daemon, "code")

    async with reviewing(daemon, operator="wall") as reviewer:
        await reviewer.sees("1 pending", "read-only", ", pending)")
        for key in ("a", "d", "s", "g"):
            await reviewer.press(key)
            await reviewer.sees("NOT ANSWERED: wall is an observer")
            await reviewer.press("enter")
            await reviewer.sees_no("NOT ANSWERED")

    assert person(daemon, "query", "pending")["pending"] == 1


async def test_who_opens_the_screen_is_seen(daemon):
    async with reviewing(daemon) as reviewer:
        await reviewer.sees("0 pending")

    lines = (daemon.data_dir / "audit" / "audit-00000001.jsonl").read_text().splitlines()
    seen = [line for line in lines if '"person_seen"' in line]
    assert any('"ack"' in line for line in seen)
