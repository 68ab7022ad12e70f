"""Hard examples of every kind of message, from a real engine and its outbox."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from safetyd.cards.note_cards import DigestCard
from safetyd.cards.request_card import RequestCard, RequestKind
from safetyd.core.action_types import TypeConfig
from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BudgetMarked,
    Paused,
    Resumed,
    SafeModeEntered,
    Stopped,
)
from safetyd.core.events.notification_events import ChannelMoved
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.proposal import Scores, Target
from safetyd.core.messages.transcript import Entry, Transcript, Usage
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours
from safetyd.notify.ended_messages import EndedMessage, how_it_ended
from safetyd.notify.message import Notice
from safetyd.notify.outbox_control import TEST
from tests.cards.card_story import context
from tests.notify.compose_rig import ComposeRig, telling
from tests.notify.message_samples import report_topic
from tests.story import outcome

BERLIN: Final = QuietHours(start="00:00", end="00:00", timezone="Europe/Berlin")
DIFF: Final = (
    "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -10,4 +10,6 @@ def total(items):\n"
    "     amount = sum(item.price for item in items)\n-    return amount\n"
    "+    if amount > FREE_SHIPPING:\n+        return amount\n+    return amount + SHIPPING\n"
)
STEPS: Final = "".join(f"rsync -a /srv/data/{n:02}/ backup:/vol/{n:02}/ && " for n in range(60))
POLICY: Final = Policy(
    budget=BudgetConfig(session_usd=10.0),
    types={"wire_money": TypeConfig(tier="requires_permission", approve_via=("cli",))},
)


class NotSent(Exception):
    """There is no such message in this place."""


Made = Callable[[str], Notice]

# Fields of proposals that are hard to show.
REQUESTS: Final[Mapping[str, dict[str, Any]]] = {
    "push": {
        "agent": "nightly",
        "text": "git push origin main",
        "project": "shop",
        "cwd": "/srv/shop",
        "rationale": "All tests pass, and the fix is wanted in today's release.",
        "timeout_s": 3600.0,
        "urgency": "high",
    },
    "long-command": {
        "agent": "ops-2",
        "type": "run_shell",
        "text": f"set -e; {STEPS}date",
        "cwd": "/srv",
        "rationale": "Move the volumes before the old disk is retired.",
        "timeout_s": 7200.0,
    },
    "sql": {
        "agent": "schema",
        "type": "db_write",
        "text": "UPDATE orders SET status = 'paid', paid_at = now();",
        "target": Target(name="shop orders", url="postgres://db1/shop"),
        "rationale": "Mark the test orders as paid.",
        "rollback": "Restore the snapshot of 02:00.",
        "timeout_s": 1200.0,
        "urgency": "high",
    },
    "purchase": {
        "agent": "browser",
        "type": "purchase",
        "text": "",
        "description": "Buy a 2 TB disk for the backup machine",
        "target": Target(
            label="Buy now", role="button", url="https://shop.example/checkout?cart=7"
        ),
        "cost_usd": 129.9,
        "context": context(to="Disk & Co. GmbH", items=["NVMe 2 TB x1"]),
        "timeout_s": 7200.0,
    },
    "mail": {
        "agent": "mailer",
        "type": "send_email",
        "text": "Dear Ms Chen,\n\nplease find the offer attached. It is valid until Friday.\n\n"
        "Kind regards",
        "context": context(
            to=["chen@customer.example", "board@customer.example"],
            subject="Your offer",
            attachments=["offer.pdf (214 kB)"],
            diff=DIFF,
        ),
        "rationale": "The customer asked for it this morning.",
    },
    "click": {
        "agent": "browser",
        "type": "click",
        "text": "",
        "target": Target(
            label="Confirm and cancel subscription",
            role="button",
            window="Settings - Example Bank",
            url="https://bank.example/settings/account",
        ),
        "rationale": "The user wants to leave.",
    },
    "unicode-path": {
        "agent": "files",
        "type": "delete_file",
        "text": "",
        "paths": (
            "/srv/archiv/Jahresbericht \u202egnp.2025.exe",
            "/srv/archiv/\u0434\u043e\u0433\u043e\u0432\u043e\u0440 \u2116 7.pdf",
            "/srv/archiv/\u5831\u544a.txt",
        ),
        "description": "Remove the duplicates",
    },
    "three-rules": {
        "agent": "release",
        "type": "publish",
        "text": "npm publish --access public && submit-release --confirm",
        "project": "widgets",
        "cwd": "/srv/widgets",
        "confidence": 0.55,
        "scores": Scores(
            strategic_alignment=3,
            autonomy_appropriateness=2,
            output_quality=4,
            resource_efficiency=3,
            learning_application=3,
        ),
        "rationale": "Version 2.0 is ready.",
    },
    "terminal-only": {
        "agent": "finance",
        "type": "wire_money",
        "text": "Transfer 4,200.00 EUR to DE89 3704 0044 0532 0130 00 (Disk & Co. GmbH)",
    },
}


def rig(channel: str) -> ComposeRig:
    told = telling(channel, quiet=BERLIN, summaries="each")
    wired = ComposeRig(policy=msgspec.structs.replace(POLICY, telling=told))
    wired.clock.t = 14 * 3600.0  # 03:00 in Berlin
    return wired


def _asks(wired: ComposeRig, number: str, fields: Mapping[str, Any]) -> str:
    digest = f"sha256:{number.encode().hex():0<12}"
    return wired.asks(number, **{"digest": digest, **fields})


def _asked(fields: Mapping[str, Any], channel: str, *, kind: RequestKind = "request") -> Notice:
    wired = rig(channel)
    _asks(wired, "p1", fields)
    wired.passes()
    notice = _last(wired)
    card = notice.card
    assert isinstance(card, RequestCard)
    return msgspec.structs.replace(notice, card=msgspec.structs.replace(card, kind=kind))


def _last(wired: ComposeRig) -> Notice:
    """Return the last message that can be sent now."""
    composed = (
        wired.composer.compose(wired.engine, delivery.id, wired.at, again=False)
        for delivery in wired.engine.outbox.deliveries()
    )
    notices = [each for each in composed if isinstance(each, Notice)]
    if not notices:
        raise NotSent
    return notices[-1]


def _happened(event: Callable[..., Event], channel: str) -> Notice:
    wired = rig(channel)
    if event is _EVENTS["resume"]:
        wired.happens(_EVENTS["stop"](at=wired.at, t=wired.clock.t))
        wired.passes()
    wired.happens(event(at=wired.at, t=wired.clock.t))
    wired.passes(1000)
    return _last(wired)


def _over_budget(channel: str) -> Notice:
    """An agent's session is over its budget, so the agent is paused and asks."""
    wired = rig(channel)
    call = {"agent": "writer", "type": "model_call", "model": "gpt-5", "session": "s-12"}
    for number in range(4):
        wired.queue.asks(wired.clock.t, f"m{number}", **call, text="", cost_usd=2.4)
        wired.happens(outcome(wired.clock.t, f"m{number}", agent="writer"))
    _asks(wired, "p1", {**call, "text": "Summarise the 40 reports", "cost_usd": 0.9})
    wired.passes()
    return _last(wired)


def _digest(channel: str) -> Notice:
    wired = rig(channel)
    for number, name in enumerate(("push", "sql", "click", "three-rules")):
        _asks(wired, f"p{number}", {**REQUESTS[name], "urgency": "normal", "timeout_s": None})
    wired.passes()
    notice = _last(wired)
    assert isinstance(notice.card, DigestCard)
    return notice


def _noted(channel: str, **fields: Any) -> Notice:
    wired = rig(channel)
    return wired.says(wired.notes(**fields))


def _report(channel: str) -> Notice:
    notice = _noted(channel, kind="summary", urgency="normal")
    return msgspec.structs.replace(notice, card=report_topic())


def _session(channel: str) -> Notice:
    wired = rig(channel)
    ended = wired.at
    push = Entry(
        "push", "git push origin main", "requires_permission", "done", request_id="req_0a1b2c3d4e5f"
    )
    asked = msgspec.structs.replace(
        push, type="permission_request", status="approved", action="push"
    )
    transcript = Transcript(
        session_id="s-12",
        agent="nightly",
        started_at=ended - timedelta(minutes=12, seconds=5),
        ended_at=ended,
        why="ended",
        provider="openai",
        model="gpt-5",
        token_usage=Usage(12400, 3200),
        actions=(
            Entry("run_tests", "pytest -q", "auto_allowed", "done"),
            asked,
            push,
            Entry("read_file", "README.md", "auto_allowed"),
            Entry(
                "run_shell",
                "npm install left-pad",
                "requires_permission",
                "pending",
                request_id="req_5f4e3d2c1b0a",
            ),
            Entry("run_shell", "rm -rf build", "auto_allowed", "failed", reason="no such folder"),
        ),
        left_out=0,
        pending_permissions=1,
        scheduled_next=(ended + timedelta(hours=1)).isoformat(),
        budget_remaining_percent=62,
    )
    wired.happens(Transcribed(at=ended, t=wired.clock.t, transcript=transcript))
    wired.passes()
    return _last(wired)


def _budget(**when: Any) -> BudgetMarked:
    return BudgetMarked(
        mark="exceeded",
        scope="day",
        id="2026-03-02",
        spent=49.2,
        reserved=0.5,
        limit=50.0,
        estimate=1.25,
        renewed="at 00:00Z",
        **when,
    )


_EVENTS: Final[Mapping[str, Callable[..., Event]]] = {
    "anomaly-pause": partial(
        Paused,
        agent="coder-3",
        source="anomaly",
        by="safetyd",
        reason="Rapid identical requests: create_file 3 times in 10 s",
        usual="fewer than 3 in 10 s",
    ),
    "anomaly-alert": partial(
        AnomalyFound,
        rule="anomaly.error_rate",
        severity="high",
        agent="coder-3",
        message="High error rate: 12.0%",
        usual="at most 5.0% of the last 100 outcomes",
    ),
    "anomaly-stop": partial(
        AnomalyFound,
        rule="anomaly.repeated_action",
        severity="critical",
        agent="coder-3",
        message="Repeated action: read_file 12 times",
        usual="at most 5 times in a row",
    ),
    "breaker": partial(
        AnomalyFound,
        rule="anomaly.breaker_oscillation",
        severity="high",
        breaker="api.openai.com",
        message="Oscillating breaker: api.openai.com tripped 3 times in 10 min",
        usual="fewer than 3 times",
    ),
    "budget-alert": _budget,
    "budget-warning": partial(
        BudgetMarked,
        mark="warning",
        scope="session",
        id="s-12",
        agent="writer",
        spent=8.2,
        reserved=0.0,
        limit=10.0,
        estimate=0.0,
        renewed="in another session",
    ),
    "safe-mode": partial(
        SafeModeEntered, by="safetyd", agent="coder-3", errors=3, reason="3 errors in a row"
    ),
    "stop": partial(Stopped, source="operator", by="alice", reason="the build is on fire", epoch=1),
    "resume": partial(Resumed, sources=("operator",), by="alice", epoch=2),
    "channel-down": partial(ChannelMoved, channel="email", up=False, why="535 wrong password"),
}

EXAMPLES: Final[Mapping[str, Made]] = {
    **{name: partial(_asked, fields) for name, fields in REQUESTS.items()},
    "reminder": partial(_asked, REQUESTS["push"], kind="reminder"),
    "last-call": partial(_asked, REQUESTS["push"], kind="last_call"),
    "expired": partial(_asked, REQUESTS["push"], kind="expired"),
    "over-budget": _over_budget,
    "digest": _digest,
    "session": _session,
    "report": _report,
    "test": partial(_noted, kind="test", title="Test by alice", text=TEST),
    **{name: partial(_happened, event) for name, event in _EVENTS.items()},
}


def ended(channel: str) -> EndedMessage:
    """Return a message whose request was approved meanwhile."""
    wired = rig(channel)
    request_id = _asks(wired, "p1", REQUESTS["push"])
    wired.passes()
    *_, delivery = wired.engine.outbox.deliveries()
    wired.answers(request_id, "approved")
    notice = wired.composer.notice(wired.engine, delivery, delivery.items, wired.at)
    ends = (how_it_ended(wired.queue.request(request_id), notice),)
    return EndedMessage(notice, ends, pending=False, answered=True, provider_id="1")
