from collections.abc import Callable

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import at_a_terminal, told
from tests.journeys.asking_agent import waiting


def asked(daemon: RunningDaemon, agent: str, text: str = "Submit order") -> str:
    """Let an agent request an approval, and return the id of the request."""
    told(daemon, "check", agent, "click", "--text", text)
    (row,) = (row for row in waiting(daemon) if (row["agent"], row["text"]) == (agent, text))
    return str(row["id"])


def approve(
    daemon: RunningDaemon, *arguments: str, typed: str, meanwhile: Callable[[], object] = bool
) -> str:
    return at_a_terminal(
        "approve",
        *arguments,
        typed=typed,
        after="[y/N]",
        meanwhile=meanwhile,
        SAFETYD_DATA_DIR=str(daemon.data_dir),
    )


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    return start_daemon()


@pytest.fixture
def pending(daemon: RunningDaemon) -> Callable[[], set[str]]:
    return lambda: {row["id"] for row in waiting(daemon)}


def test_the_newest_request_is_shown_and_approved_whatever_agents_write(
    daemon: RunningDaemon, pending: Callable[[], set[str]]
) -> None:
    older = asked(daemon, "shop")
    newer = asked(daemon, "rogue", f"Buy it, see {older}")

    refused = approve(daemon, "--last", typed="n\n")
    assert f"Approve {newer}?" in refused
    assert "Buy it, see" in refused
    assert pending() == {older, newer}

    assert f"{newer}: approved" in approve(daemon, "--last", typed="y\n")
    assert pending() == {older}
    assert f"{older}: approved" in approve(daemon, "--agent", "shop", typed="y\n")


def test_a_newer_request_makes_the_choice_void(
    daemon: RunningDaemon, pending: Callable[[], set[str]]
) -> None:
    first = asked(daemon, "shop")

    said = approve(daemon, "--last", typed="y\n", meanwhile=lambda: asked(daemon, "rogue"))

    assert "nothing was approved" in said
    assert len(pending()) == 2
    assert first in pending()

    several = at_a_terminal(
        *("approve", "--agent", "shop"),
        typed="y\n",
        after="[y/N]",
        meanwhile=lambda: asked(daemon, "shop", "Submit another order"),
        SAFETYD_DATA_DIR=str(daemon.data_dir),
    )
    assert "shop has 2 pending requests" in several
    assert len(pending()) == 3


def test_only_a_person_at_a_terminal_can_approve_without_an_id(daemon: RunningDaemon) -> None:
    asked(daemon, "shop")

    for choice in (["--last"], ["--agent", "shop"]):
        said = told(daemon, "approve", *choice, stdin="y\n")
        assert (said.returncode, "need a terminal" in said.stderr) == (2, True)
    assert told(daemon, "approve", "--last", "req_1").returncode == 2
    assert told(daemon, "approve").returncode == 2
    assert len(waiting(daemon)) == 1
