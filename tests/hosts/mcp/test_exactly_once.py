"""One approval lets the proxy forward one call, whatever happens in between."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.client.person import Person
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.mcp.proxy_process import ProxyProcess, proxied
from tests.journeys.agents import until

pytestmark = pytest.mark.journey

AT_ONCE = ("--wait-s", "0")
PATIENT = ("--wait-s", "60")


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def person(daemon: RunningDaemon) -> Person:
    return Person(daemon)


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> str:
    """A different agent name for each test, so that tests share no approvals."""
    return str(request.node.name)[-64:]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record"


def asked(person: Person, agent: str) -> str:
    """Wait for the only pending request of an agent."""
    until(lambda: person.waiting(agent))
    (request,) = person.waiting(agent)
    return str(request["id"])


def start(
    daemon: RunningDaemon, record: Path, agent: str, how: tuple[str, ...]
) -> AbstractContextManager[ProxyProcess]:
    return proxied(daemon.data_dir, record, "--agent", agent, *how)


def test_a_call_waits_for_nobody_and_the_same_call_runs_once_after_the_approval(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, AT_ONCE) as proxy:
        proxy.call(1, "add_note", text="a")
        pending = proxy.result(1)
        request = asked(person, agent)
        proxy.call(2, "add_note", text="other")
        assert proxy.result(2)["isError"]
        person.approve(request)
        proxy.call(3, "add_note", text="a")
        ran = proxy.text(3)
        proxy.call(4, "add_note", text="a")

        assert proxy.result(4)["isError"]
        assert proxy.ran() == [{"text": "a"}]
    assert pending["isError"]
    assert request in pending["content"][0]["text"]
    assert pending["_meta"]["safetyd/request_id"] == request
    assert ran == "ran"


def test_a_waiting_call_runs_as_soon_as_it_is_approved(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, PATIENT) as proxy:
        proxy.call("x", "add_note", text="a")
        person.approve(asked(person, agent))

        assert proxy.text("x") == "ran"
        assert proxy.ran() == [{"text": "a"}]


def test_of_two_calls_that_are_the_same_one_runs(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, PATIENT) as proxy:
        for id_ in (1, 2):
            proxy.call(id_, "add_note", text="a")
        until(lambda: any(one["repeats"] for one in person.waiting(agent)))
        person.approve(asked(person, agent))
        errors = [proxy.result(id_).get("isError", False) for id_ in (1, 2)]

        assert sorted(errors) == [False, True]
        assert proxy.ran() == [{"text": "a"}]
    assert person.waiting(agent) == []


def test_an_approval_outlives_a_proxy_that_is_killed_while_it_waits(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, PATIENT) as killed:
        killed.call(1, "add_note", text="a")
        request = asked(person, agent)
        killed.kill()
    person.approve(request)

    with start(daemon, record, agent, AT_ONCE) as proxy:
        proxy.call(1, "add_note", text="a")
        assert proxy.text(1) == "ran"
        proxy.call(2, "add_note", text="a")
        assert proxy.result(2)["isError"]
        assert proxy.ran() == [{"text": "a"}]


def test_a_cancelled_call_leaves_its_approval_to_the_next_one(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, PATIENT) as proxy:
        proxy.call(1, "add_note", text="a")
        request = asked(person, agent)
        proxy.cancel(1)
        proxy.ping("cancelled")
        person.approve(request)
        proxy.call(2, "add_note", text="a")

        assert proxy.text(2) == "ran"
        assert 1 not in proxy.unread
        assert [one["method"] for one in proxy.received()] == ["ping", "tools/call"]


def test_a_call_that_is_cancelled_as_it_is_approved_runs_once(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, PATIENT) as proxy:
        for number in range(8):
            text = f"note {number}"
            proxy.call(f"first {number}", "add_note", text=text)
            request = asked(person, agent)
            person.approve(request)
            proxy.cancel(f"first {number}")
            proxy.ping(f"cancelled {number}")
            if {"text": text} in proxy.ran():
                continue
            proxy.call(f"second {number}", "add_note", text=text)
            assert proxy.text(f"second {number}") == "ran"

        assert proxy.ran() == [{"text": f"note {number}"} for number in range(8)]


def test_a_denied_call_does_not_run_and_the_reason_reaches_the_model(
    daemon: RunningDaemon, person: Person, agent: str, record: Path
) -> None:
    with start(daemon, record, agent, PATIENT) as proxy:
        proxy.call(1, "add_note", text="a")
        person.deny(asked(person, agent), "not on a Friday")

        assert "not on a Friday" in proxy.text(1)
        assert proxy.ran() == []


def test_without_the_daemon_nothing_runs_and_a_call_that_waits_survives_its_restart(
    start_daemon: StartDaemon, agent: str, record: Path
) -> None:
    daemon = start_daemon()
    person = Person(daemon)
    with start(daemon, record, agent, PATIENT) as proxy:
        proxy.call(1, "add_note", text="a")
        request = asked(person, agent)
        daemon.stop()
        proxy.call(2, "read_notes")
        away = proxy.result(2)
        daemon.start()
        person.approve(request)

        assert proxy.text(1) == "ran"
        assert away["isError"]
        assert away["_meta"]["safetyd/cause"] == "unavailable"
        assert proxy.ran() == [{"text": "a"}]
