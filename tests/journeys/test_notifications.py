"""Messages arrive despite power cuts and failing channels."""

import json
import re
import statistics
import time
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, review, waiting
from tests.journeys.delivery_targets import CHANNELS, Helper, Targets, outbox, until
from tests.journeys.relay_rig import fetch

AT_ONCE: Final = """
[notifications]
strategy = "all"
patience_minutes = []
next_person_minutes = 0
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
"""
SOON: Final = AT_ONCE.replace("batch_interval_seconds = 0", "batch_interval_seconds = 2")
ALICE: Final = """
[[recipients]]
name = "alice"
email = "alice@example.com"
sms = "+15550100"
channels = ["email", { name = "sms", min_urgency = "low" }, "ntfy"]
"""
ARRIVED: Final = {"accepted", "delivered"}
ROUNDS: Final = 8
TIMES: Final = 10  # a hanging channel would take a hundred times as long


@pytest.fixture
def daemon(start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path) -> RunningDaemon:
    return start_daemon(AT_ONCE + everywhere.configure(tmp_path) + ALICE)


def ask(daemon: RunningDaemon, id_: str, agent: str = "code", **fields: object) -> str:
    with Asker(daemon, agent) as asker:
        return str(asker.propose(id_, **fields)["request_id"])


def ids(daemon: RunningDaemon) -> dict[str, str]:
    """Return the message on each channel."""
    return {row["channel"]: row["id"] for row in outbox(daemon)}


def states(daemon: RunningDaemon) -> set[str]:
    return {row["state"] for row in outbox(daemon)}


def answered_once(daemon: RunningDaemon, request: str) -> bool:
    first, second = review(daemon, "approve", request), review(daemon, "deny", request)
    return bool(first["ok"]) and second["code"] == "already_decided"


@pytest.mark.req("K4")
@pytest.mark.req("S3.6")
def test_a_message_not_yet_delivered_at_a_kill_is_sent_after_the_restart(
    daemon: RunningDaemon, everywhere: Targets
) -> None:
    everywhere.set("deaf")
    request = ask(daemon, "p1")
    until(lambda: len(ids(daemon)) == len(CHANNELS), "messages under way")
    before = ids(daemon)

    daemon.kill()
    everywhere.set("takes")
    daemon.start()

    for channel in CHANNELS:
        (arrival,) = everywhere.wait(channel, 1)
        assert arrival.id in {before[channel], ""}
    assert ids(daemon) == before
    assert answered_once(daemon, request)


def test_a_delivered_but_unrecorded_message_is_sent_again_with_the_same_id(
    daemon: RunningDaemon, everywhere: Targets
) -> None:
    everywhere.set("mute")
    request = ask(daemon, "p1")
    for channel in CHANNELS:
        everywhere.wait(channel, 1)

    daemon.kill()
    everywhere.set("takes")
    daemon.start()

    for channel in CHANNELS:
        first, again = everywhere.wait(channel, 2)
        assert first.id == again.id
    until(lambda: states(daemon) <= ARRIVED, "everything to be recorded")
    assert answered_once(daemon, request)


def test_a_recorded_delivery_is_not_repeated_after_a_kill(
    daemon: RunningDaemon, everywhere: Targets
) -> None:
    request = ask(daemon, "p1")
    until(lambda: len(ids(daemon)) == len(CHANNELS) and states(daemon) <= ARRIVED, "all to be told")

    daemon.kill()
    daemon.start()
    other = ask(daemon, "p2", text="git push elsewhere")

    for channel in CHANNELS:
        arrivals = everywhere.wait(channel, 2)
        assert len(arrivals) == 2
        assert arrivals[0].id != arrivals[1].id or not arrivals[0].id
    assert answered_once(daemon, request)
    assert answered_once(daemon, other)


def test_a_hanging_channel_delays_neither_other_channels_nor_decisions(
    daemon: RunningDaemon, everywhere: Targets
) -> None:
    well = rounds(daemon, everywhere, "well")
    everywhere.set("deaf", "email", "sms")
    everywhere.set("refuses", "ntfy")
    everywhere.set("mute", "team")
    sick = rounds(daemon, everywhere, "sick")

    # Seconds for a delivery, and for a decision.
    assert sick[0] < TIMES * well[0]
    assert sick[1] < TIMES * well[1]


def rounds(daemon: RunningDaemon, everywhere: Targets, name: str) -> tuple[float, float]:
    """Return the median times of a webhook delivery and of a decision."""
    arrives, decides = list[float](), list[float]()
    for number in range(ROUNDS):
        # Different agents, because frequent requests of one agent are bundled.
        with Asker(daemon, f"{name}-{number}") as agent:
            before = len(everywhere.arrivals("webhook"))
            began = time.monotonic()
            agent.propose("p1")
            decides.append(time.monotonic() - began)
            arrival = everywhere.wait("webhook", before + 1)[-1]
            arrives.append(arrival.at - began)
    return statistics.median(arrives), statistics.median(decides)


def test_requests_answered_before_delivery_are_not_sent(
    start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path
) -> None:
    daemon = start_daemon(SOON + everywhere.configure(tmp_path) + ALICE)

    answered = ask(daemon, "p1")
    left = ask(daemon, "p2", text="git push elsewhere")
    review(daemon, "deny", answered)

    (arrival,) = everywhere.wait("email", 1)
    assert left in arrival.words
    assert answered not in arrival.words


@pytest.mark.req("S3.37")
def test_twenty_requests_share_one_message(
    start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path
) -> None:
    daemon = start_daemon(SOON + everywhere.configure(tmp_path) + ALICE)

    agents = [f"agent-{n}" for n in range(20)]
    for agent in agents:
        ask(daemon, "p1", agent)

    (arrival,) = everywhere.wait("email", 1)
    assert arrival.words.startswith("20 requests: push \N{MULTIPLICATION SIGN}20\n")
    linked = re.findall(r"push by (agent-\d+)\b[^/]*?http://\S+/d/\S+", arrival.words)
    assert sorted(linked) == sorted(agents)
    assert len(everywhere.wait("sms", 1)) == 1


@pytest.mark.req("S3.37")
def test_twenty_similar_requests_are_one_entry_with_one_code(
    start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path
) -> None:
    daemon = start_daemon(SOON + everywhere.configure(tmp_path) + ALICE)
    drained = [f"node-{n}" for n in range(20)]

    with Asker(daemon, "nodes") as agent:
        for node in drained:
            agent.propose(node, type="run_shell", text=f"kubectl drain {node}")

    (arrival,) = everywhere.wait("email", 1)
    assert arrival.words.startswith("20 requests: run_shell by nodes: kubectl drain [..]\n")
    assert re.findall(r"node-\d+", arrival.words) == drained
    (link,) = re.findall(r"http://\S+/d/\S+", arrival.words)
    (code,) = re.findall(r"Code: (\d+) ", arrival.words)
    nonce = fetch(link).nonce
    assert len(waiting(daemon)) == len(drained)
    fetch(link, {"v": "approve", "n": nonce, "c": code})
    assert not waiting(daemon)


def test_a_batch_entry_can_be_approved_only_if_it_is_complete(
    start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path
) -> None:
    daemon = start_daemon(SOON + everywhere.configure(tmp_path) + ALICE)
    whole = ask(daemon, "p1", "one", cwd="/srv/web")
    mail = ask(
        daemon,
        "p1",
        "two",
        type="send_email",
        text="Dear Bob, here is the offer.",
        target={"label": "bob@example.com"},
        context={"diff": "+a\n" * 400, "attachment": "offer.pdf"},
        cost_usd=4,
    )
    long = ask(daemon, "p1", "three", text="git push origin " + "branch-" * 200)
    bought = ask(daemon, "p1", "four", type="purchase", text="Buy a desk", cost_usd=9)

    (arrival,) = everywhere.wait("email", 1)
    posted = everywhere.wait("webhook", 1)[0].words
    topics = {topic["id"]: topic for topic in json.loads(posted)["data"]["topics"]}
    page = everywhere.mail.received[0].page

    for shown in (arrival.words, page):
        assert "characters of the exact text. Review the full request" in " ".join(shown.split())
        assert f"safetyd approve {long}" not in shown
        assert f"safetyd show {long}" in shown
        # There is no room for the long diff, so that this one has only a line with a link.
        assert "send_email by two" in shown
        assert mail not in shown
        assert "$9.00 (agent" in shown
    assert re.search(r"^- send_email by two: .+\n  http://\S+/d/\S+$", arrival.words, re.MULTILINE)
    left_out = "a diff of 400 lines, context (attachment)"
    assert topics[mail]["left_out"].startswith(left_out)
    assert topics[mail]["cost"] == "$4.00"
    assert "characters of the exact text" in topics[long]["left_out"]
    for request in (mail, long):
        assert not [each for each in topics[request]["commands"] if "approve" in each]
    assert f"safetyd approve {whole} --digest" in arrival.words
    assert "Folder /srv/web" in " ".join(arrival.words.split())
    assert "/srv/web" in page
    assert topics[whole]["folder"] == "/srv/web"
    assert [id_ for id_ in topics if "code" in topics[id_]] == [whole]
    assert arrival.words.count("Code to approve:") == 1
    assert bought in arrival.words


def test_a_desktop_message_is_repeated_until_a_helper_confirms_it(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(AT_ONCE + "[notifications.desktop]\nhelper = true\n")
    request = ask(daemon, "p1")
    until(lambda: len(ids(daemon)) == 1, "the message")

    daemon.kill()  # before it was delivered
    daemon.start()
    with Helper(daemon) as helper:
        heard = helper.hears()
        daemon.kill()  # before it was recorded
    daemon.start()
    with Helper(daemon) as helper:
        again = helper.hears()
        helper.shows(again)
        until(lambda: states(daemon) == {"delivered"}, "it to be recorded")
        daemon.kill()  # after
    daemon.start()
    with Helper(daemon) as helper:
        other = ask(daemon, "p2", text="git push elsewhere")
        last = helper.hears()

    assert heard["delivery"] == again["delivery"]
    assert (again["request_id"], last["request_id"]) == (request, other)
    assert answered_once(daemon, request)
