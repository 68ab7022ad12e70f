"""What of the state of a daemon is worth a line, and what is not."""

import pytest

from safetyd.console.render import status_page
from safetyd.console.render.status_page import MAX_FINDINGS, WELL
from tests.console.render.answers import (
    agent_row,
    budget,
    finding,
    pause,
    status_answer,
    stop,
    waiting,
)
from tests.filled import reading

status = reading(status_page.status)


def lines(**more: object) -> list[str]:
    return status(status_answer(**more)).splitlines()


def begins(word: str, **more: object) -> int:
    """Return how many lines begin with a word."""
    return sum(line.startswith(word) for line in lines(**more))


@pytest.mark.parametrize(
    "fine",
    [
        {"findings": [finding("low")], "found": 1},
        {"findings": [finding("high", seen=True)], "found": 1},
        {"today": budget("day", 39, 50)},
        {"today": budget("day", 1000, None)},
        {"foremost": [agent_row("a")], "agents": 1},
        {"outlets": [{"name": "postgres", "behind": 7, "problem": ""}]},
    ],
)
def test_what_nobody_must_look_at_is_well(fine):
    assert lines(**fine)[0] == WELL


@pytest.mark.parametrize(("said", "written"), [("fire\ndrill", "fire drill"), ("", "/d/H exists")])
def test_the_command_of_a_stop_and_the_file_that_it_wrote_are_one_stop(said, written):
    stops = [stop("operator", reason=said), stop("file:/d/H", reason=written)]

    assert begins("STOPPED", stop={"active": True, "stops": stops}) == 1
    assert begins("STOPPED", stop={"active": True, "stops": [stops[0], stop("file:/d/H")]}) == 2


def test_a_stop_of_everything_comes_before_that_of_one_agent():
    stops = [{**stop("operator"), "agent": "code"}, stop("operator")]

    shown = [line for line in lines(stop={"active": True, "stops": stops}) if "STOPPED" in line]

    assert ["everything" in line for line in shown] == [True, False]


def test_the_anomaly_behind_a_pause_is_told_once():
    paused = pause("code", "odd", source="anomaly")
    found = {"findings": [finding("high")], "found": 1}

    assert begins("ANOMALY", **found) == 1
    assert begins("ANOMALY", pauses=[paused], paused=["code"], **found) == 0


def test_attempts_on_safetyd_and_dangerous_commands_are_shown_with_the_commands_for_them():
    own = {"agent": "code", "count": 2, "since": "2026-02-08T14:02:00Z", "id": "p2"}
    shown = "\n".join(lines(own_attempts=[own], dangerous=[{"agent": "web", "count": 3}]))

    assert shown.startswith("PROTECTED: code ")
    assert "`safetyd stop --agent code`" in shown
    assert "`safetyd ack`" in shown
    assert "DANGEROUS: 3 dangerous commands of web" in shown


def test_requests_that_wait_for_the_morning_are_counted():
    unsent = {"requests": 4, "urgent": 1, "until": "2026-02-09T07:00:00Z", "expiring": 2}

    shown = "\n".join(lines(requests=waiting(pending=6, unsent=unsent)))

    assert "4 requests will not be sent to anyone until 2026-02-09 07:00:00Z" in shown
    assert "1 of them urgent; 2 expire before then" in shown


def test_of_many_anomalies_the_first_few_are_shown():
    found = [finding("high") for _ in range(MAX_FINDINGS + 3)]

    assert begins("ANOMALY", findings=found, found=len(found)) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("pending", "of_one", "named"), [(53, 50, True), (53, 26, False), (4, 4, False)]
)
def test_an_agent_that_asks_for_most_of_many_is_named(pending, of_one, named):
    said = lines(requests=waiting(pending=pending, most="looper", most_pending=of_one))

    assert any("--agent looper" in line for line in said) is named
