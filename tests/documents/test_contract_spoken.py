"""What a running daemon says, held against the published schemas."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import nats
import pytest
import standardwebhooks
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from docs.messages import TELEMETRY
from tests.conftest import RunningDaemon, StartDaemon
from tests.notify.http_receivers import Receiver, receiving
from tests.schemas import validator
from tests.servers import until
from tests.wire_samples import PROPOSAL, SAMPLES

# What is asked about by an id, which only a daemon can give.
ABOUT_ONE = {
    "query_request",
    "control_grant_add",
    "control_grant_revoke",
    "control_budget_strike",
}
# What needs a project with a history; tests/journeys/test_version_history.py says it.
ABOUT_COMMITS = {"query_commit", "control_rollback"}
# Refused, because there is no other daemon and no suggestion.
ALONE = {"control_handover", "control_suggestion_apply"}
# What needs somebody who can be told.
ABOUT_MESSAGES = {
    "control_notify_test",
    "control_notify_retry",
    "control_notify_drop",
    "control_notify_link",
}
APART = ABOUT_ONE | ABOUT_COMMITS | ABOUT_MESSAGES | ALONE


class Lines(NamedTuple):
    """An agent's and a person's connection to a daemon."""

    agent: Client
    person: Client


@pytest.fixture
async def lines(start_daemon: StartDaemon) -> AsyncIterator[Lines]:
    async with connected(start_daemon()) as lines:
        yield lines


@asynccontextmanager
async def connected(daemon: RunningDaemon) -> AsyncIterator[Lines]:
    seed = (daemon.data_dir / "keys/operator.nk").read_text().strip()
    agent = await nats.connect(daemon.endpoint.bus)
    person = await nats.connect(
        daemon.endpoint.bus, nkeys_seed_str=seed, inbox_prefix="_INBOX.op.local"
    )
    try:
        yield Lines(agent, person)
    finally:
        await agent.close()
        await person.close()


async def answer(client: Client, subject: str, payload: str, name: str) -> dict[str, Any]:
    """Return what is answered; it must have the fields of its schema and no others."""
    said = json.loads((await client.request(subject, payload.encode(), timeout=5)).data)
    validator(name, closed=True).validate(said)
    return dict(said)


Tell = Callable[[dict[str, object], str], Awaitable[dict[str, Any]]]


def telling(person: Client) -> Tell:
    """Return what tells a daemon something, in a person's name, and returns the answer."""

    async def tell(command: dict[str, object], name: str) -> dict[str, Any]:
        subject = f"safety.v1.{name.partition('_')[0]}.local"
        return await answer(person, subject, json.dumps(command), f"{name}_reply")

    return tell


@pytest.mark.journey
async def test_messages_of_a_daemon_match_their_schemas(lines: Lines):
    agent, person = lines
    events = await person.subscribe("safety.v1.event.*")
    states = await person.subscribe("safety.v1.state.*")
    await person.flush()

    proposal = PROPOSAL.replace("git push origin main", "rm -rf /")
    decision = await answer(agent, "safety.v1.propose.code", proposal, "decision")
    for name, sample in SAMPLES:
        if name in TELEMETRY:
            await answer(agent, "safety.v1.telemetry.code", sample, "noted")
        elif name.startswith(("control_", "query_", "review_")) and name not in APART:
            subject = f"safety.v1.{name.partition('_')[0]}.local"
            await answer(person, subject, sample, f"{name}_reply")
    await answer(person, "safety.v1.control.local", '{"command": "dance"}', "refusal")
    await answer(person, "$SRV.PING", "", "service_reply")

    assert decision["decision"] == "block"
    validator("safety_event").validate(json.loads((await events.next_msg(5)).data))
    validator("state_stop").validate(json.loads((await states.next_msg(5)).data))


@pytest.mark.journey
async def test_messages_about_requests_match_their_schemas(lines: Lines):
    agent, person = lines
    tell = telling(person)

    async def permission(ask: str) -> dict[str, Any]:
        return await answer(agent, "safety.v1.permission.pusher", ask, "permission_result")

    push = '{"type": "push", "text": "git push", "id": "push-1"}'
    asked = await answer(agent, "safety.v1.propose.pusher", push, "decision")
    request = {"command": "request", "id": asked["request_id"]}
    claim = {"id": "push-1", "digest": asked["digest"], "claimant": "here"}
    queued = await permission('{"action": "create_pull_request", "description": "Create PR"}')
    opened = await permission('{"open": true}')
    waiting = await tell({"command": "pending"}, "query_pending")
    await tell(request, "query_request")
    await tell({"command": "approve", "ids": [asked["request_id"]]}, "review_approve")
    denied = await tell({"command": "deny", "ids": [asked["request_id"]]}, "review_deny")
    claimed = await answer(agent, "safety.v1.claim.pusher", json.dumps(claim), "claim_result")
    await tell(request, "query_request")
    past = await tell({"command": "history"}, "query_history")
    later = (datetime.fromisoformat(asked["at"]) + timedelta(hours=1)).isoformat()
    terms = {"agent": "pusher", "type": "push", "uses": 3, "until": later, "reason": "busy"}
    granted = await tell({"command": "grant_add", **terms}, "control_grant_add")
    grants = await tell({"command": "grants"}, "query_grants")
    await tell({"command": "grant_revoke", "id": granted["id"]}, "control_grant_revoke")

    assert queued["queued"]
    assert [row["id"] for row in grants["grants"]] == [granted["id"]]
    assert len(opened["requests"]) == waiting["pending"] == 2
    assert denied["results"][0]["code"] == "already_decided"
    assert claimed["granted"]
    assert [row["decision"] for row in past["history"]] == ["approved"]


@pytest.mark.journey
async def test_messages_about_a_large_report_match_their_schemas(lines: Lines):
    agent, person = lines
    tell = telling(person)

    absurd = '{"type": "outcome", "ok": true, "cost_usd": 9e8}'
    await answer(agent, "safety.v1.telemetry.pusher", absurd, "noted")
    (large,) = (await tell({"command": "budgets"}, "query_budgets"))["large_reports"]
    strike = {"command": "budget_strike", "id": large["id"], "reason": "made up"}
    struck = await tell(strike, "control_budget_strike")

    assert (struck["agent"], struck["usd"], struck["paused"]) == ("pusher", 9e8, True)


# The helper of a desktop and the receiver of a webhook are the test.
NOTIFICATIONS = """
[notifications]
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.desktop]
helper = true
[notifications.webhook]
enabled = true
url = "{url}/hook"
secret_file = "{secret_file}"
"""
SECRET = base64.b64encode(b"a key of twenty-four byt").decode()


class Told(NamedTuple):
    """The same for a daemon that tells people, and where it posts to."""

    agent: Client
    person: Client
    receiver: Receiver

    async def post(self) -> dict[str, Any]:
        """Return the next message to the webhook as far as it is signed; it must fit its schema."""
        await until(lambda: self.receiver.posts)
        post = self.receiver.posts.pop(0)
        said = standardwebhooks.Webhook(SECRET).verify(post.body, dict(post.headers))
        validator("webhook", closed=True).validate(said)
        return dict(said)


@pytest.fixture
async def told_lines(start_daemon: StartDaemon, tmp_path: Path) -> AsyncIterator[Told]:
    secret_file = tmp_path / "webhook.secret"
    secret_file.write_text(f"whsec_{SECRET}\n")
    async with receiving() as receiver:
        daemon = start_daemon(NOTIFICATIONS.format(url=receiver.url, secret_file=secret_file))
        async with connected(daemon) as (agent, person):
            yield Told(agent, person, receiver)


async def shown(notices: Subscription) -> str:
    """Return the delivery of the next message to desktops; it must fit its schema."""
    said = json.loads((await notices.next_msg(5)).data)
    validator("desktop_notice", closed=True).validate(said)
    return str(said["notice"]["delivery"])


async def arrived(tell: Tell, note: str) -> list[dict[str, Any]]:
    """Return the messages about a note once all of them have arrived."""
    with anyio.fail_after(5):
        while True:
            outbox = await tell({"command": "outbox", "ref": note}, "query_outbox")
            rows: list[dict[str, Any]] = outbox["deliveries"]
            if all(row["told_at"] for row in rows):
                return rows
            await anyio.sleep(0.02)


@pytest.mark.journey
@pytest.mark.req("S3.27")
async def test_messages_about_notifications_match_their_schemas(told_lines: Told):
    tell = telling(told_lines.person)
    notices = await told_lines.person.subscribe("safety.v1.event.DESKTOP_NOTICE")
    await told_lines.person.flush()

    begun = await tell({"command": "notify_test"}, "control_notify_test")
    posted = await told_lines.post()
    delivery = await shown(notices)
    await tell({"command": "notify_shown", "delivery": delivery}, "control_notify_shown")
    sent = await arrived(tell, begun["note"])
    channels = await tell({"command": "channels"}, "query_channels")
    previews = await tell({"command": "preview"}, "query_preview")

    assert posted["type"] == "test"
    assert begun["lanes"] == [
        {"recipient": "operator", "channel": "desktop"},
        {"recipient": "everyone", "channel": "webhook"},
    ]
    assert [row["state"] for row in sent] == ["delivered"] * 2
    assert [row["name"] for row in channels["channels"]] == ["desktop", "webhook"]
    assert [row["channel"] for row in previews["previews"]] == ["desktop", "webhook"]


@pytest.mark.journey
async def test_a_notified_request_matches_its_schema(
    told_lines: Told,
):
    tell = telling(told_lines.person)
    notices = await told_lines.person.subscribe("safety.v1.event.DESKTOP_NOTICE")
    await told_lines.person.flush()

    push = '{"type": "push", "text": "git push", "id": "push-1"}'
    asked = await answer(told_lines.agent, "safety.v1.propose.pusher", push, "decision")
    posted = await told_lines.post()
    delivery = await shown(notices)
    request = {"command": "request", "id": asked["request_id"]}
    card = (await tell(request, "query_request"))["request"]
    linked = await tell({"command": "notify_link", "delivery": delivery}, "control_notify_link")
    retried = await tell({"command": "notify_retry", "id": delivery}, "control_notify_retry")
    dropped = await tell({"command": "notify_drop", "id": delivery}, "control_notify_drop")

    assert posted["type"] == "permission.requested"
    assert [topic["id"] for topic in posted["data"]["topics"]] == [asked["request_id"]]
    assert {row["channel"] for row in card["told"]} == {"desktop", "webhook"}
    assert "/d/" in linked["link"]
    assert retried["retried"] == 1
    assert dropped["id"] == delivery
