"""Urgent requests of others do not delay those of an agent with a key."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, request_of
from tests.journeys.delivery_targets import Targets, outbox, until

FREELY: Final = 3  # urgent messages about one party within an hour on one channel of a person
IN_ALL: Final = 5  # the same about all parties
PERSONAL: Final = ("sms", "ntfy", "email")  # the operator's channels
ARRIVED: Final = {"accepted", "delivered"}
CONFIG: Final = f"""
{UNLIMITED}
[notifications]
quiet_start = "00:00"
quiet_end = "00:00"
"""
Ask = Callable[[RunningDaemon, int], str]


@pytest.fixture
def daemon(start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path) -> RunningDaemon:
    daemon = start_daemon(CONFIG + everywhere.configure(tmp_path))
    for name in ("deployer", "other"):
        assert daemon.safetyd("agent", "add", name).returncode == 0
    return daemon


def made_up(daemon: RunningDaemon, number: int) -> str:
    with Asker(daemon) as asker:
        return request_of(asker.peer, f"made-up-{number}", urgency="high")


def another(daemon: RunningDaemon, number: int) -> str:
    return keyed(daemon, "other", number)


def keyed(daemon: RunningDaemon, name: str, number: int = 0) -> str:
    key = daemon.data_dir / "keys" / "agents" / f"{name}.nk"
    text = f"git push origin {name} p{number}"
    with Asker(daemon, name, key) as asker:
        return request_of(asker.peer, name, id=f"p{number}", text=text, urgency="high")


@pytest.mark.parametrize("ask", [made_up, another])
def test_urgent_requests_of_others_do_not_delay_an_agent_with_a_key(
    daemon: RunningDaemon, everywhere: Targets, ask: Ask
) -> None:
    used = list[str]()
    for number in range(FREELY * len(PERSONAL)):
        (channel,) = told(daemon, ask(daemon, number))
        used.append(channel)
    late = ask(daemon, len(used))

    mine = told(daemon, keyed(daemon, "deployer"))

    assert used == [channel for channel in PERSONAL for _ in range(FREELY)]
    assert mine == {PERSONAL[0]}
    # One request too many of the others waits for its turn.
    assert not personal(daemon, late)
    # The webhook belongs to everyone and has limits of its own.
    until(lambda: seen(everywhere, PERSONAL[0], "webhook"), "the messages about deployer")


def test_if_others_used_up_a_channel_an_agent_with_a_key_gets_the_next_one_at_once(
    daemon: RunningDaemon,
) -> None:
    others = [(made_up, number) for number in range(FREELY)]
    others += [(another, number) for number in range(IN_ALL - FREELY)]
    for ask, number in others:
        assert told(daemon, ask(daemon, number)) == {PERSONAL[0]}

    assert told(daemon, keyed(daemon, "deployer")) == {PERSONAL[1]}


def told(daemon: RunningDaemon, request: str) -> set[str]:
    """Wait until the operator gets a request. Return the channels on which they got it."""
    until(lambda: bool(personal(daemon, request)), f"{request} to be told")
    return personal(daemon, request)


def personal(daemon: RunningDaemon, request: str) -> set[str]:
    sent = (row for row in outbox(daemon) if request in row["refs"] and row["state"] in ARRIVED)
    return {row["channel"] for row in sent} & {*PERSONAL}


def seen(everywhere: Targets, *channels: str) -> bool:
    return all(
        any("deployer" in arrival.words for arrival in everywhere.arrivals(channel))
        for channel in channels
    )
