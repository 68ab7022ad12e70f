"""Files that a coding agent loads need approval once they change, and an approval accepts them."""

from typing import Any

import msgspec
import pytest

from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import HostFilesAccepted
from safetyd.core.guards import host_files
from safetyd.core.guards.host_files import HostFilesGuard, HostFilesSeen
from safetyd.core.messages.decision import Decision
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, propose

APP = "/srv/app"


class Calls:
    """Calls of a coding agent, whose context says what the socket found."""

    def __init__(self) -> None:
        self.queue = QueueStory()
        self.t = 0.0

    @property
    def guard(self) -> HostFilesGuard:
        return self.queue.engine.guards.host_files

    def call(self, state: str, *, host: str = "claude", **found: Any) -> Decision:
        self.t += 1
        seen = HostFilesSeen(states={APP: state}, **found)
        context = {"host": host, "host_files": msgspec.to_builtins(seen)}
        proposed = propose(self.t, id=f"p{self.t}", type="read_file", context=context)
        return self.queue.proposes(msgspec.structs.replace(proposed, host=host))


def test_changed_files_need_approval_until_an_operator_has_accepted_them() -> None:
    calls = Calls()
    changed = tuple(f"CLAUDE-{number}.md changed" for number in range(5))
    asked = calls.call("one", changed=changed)
    (request,) = calls.queue.engine.approvals.pending()

    assert asked.triggered_rules == ("host_files.changed",)
    assert asked.reason.endswith("and 2 more")
    calls.queue.answers(calls.t + 1, asked.request_id)
    calls.t += 1

    (accepted,) = calls.guard.accepted
    assert (accepted.folder, accepted.state, accepted.by) == (APP, "one", "alice")
    assert calls.guard.now(request.asked, Moment(at(1), 1.0)) == ", ".join(changed)
    assert calls.call("one").allowed
    assert calls.call("two", unseen="no such folder").triggered_rules == ("host_files.unseen",)


def test_a_denied_request_and_one_about_something_else_accept_nothing() -> None:
    calls = Calls()
    asked = calls.call("one", changed=("CLAUDE.md changed",))
    calls.queue.answers(5, asked.request_id, "denied")
    push = calls.queue.asks(6, "push")
    calls.queue.answers(7, push.request_id)

    assert calls.guard.accepted == ()


def test_an_agent_cannot_write_what_the_socket_found() -> None:
    calls = Calls()

    assert calls.call("one", host="", changed=("CLAUDE.md changed",)).allowed


def test_a_limited_number_of_folders_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_files, "MAX_FOLDERS", 2)
    guard = HostFilesGuard()
    for number, state in enumerate(("one", "two", "three", "")):
        folder = f"/srv/{number if state else 1}"
        states = {folder: state}
        guard.observe(
            HostFilesAccepted(at=at(number), t=number, host="claude", states=states, by="alice")
        )

    assert [(one.folder, one.state) for one in guard.accepted] == [("/srv/2", "three")]
    assert guard.state("claude", "/srv/2") == "three"
    assert guard.state("claude", "/srv/9") == ""
