"""As many events as a test wants, of the kinds and sizes that a working day has."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Asking, Decided, Reported, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due, Item, Told
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.proposal import Proposal, Tokens
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.messages.verdict import Severity, Verdict
from safetyd.journal.audit import Audit
from tests.story import NOON

AGENTS: Final = ("code", "docs", "ops", "qa", "web")
STEP: Final = timedelta(seconds=0.5)
APPENDED: Final = 200  # lines at once


def event_mix(count_: int, begin: datetime = NOON) -> Iterator[Event]:
    """Yield so many events: rounds of ten actions, one of them blocked and one asked about."""
    for seq, event in enumerate(islice(_rounds(begin), count_), 1):
        event.seq = seq
        event.at = begin + STEP * seq
        event.t = float(seq)
        yield event


def write_audit(
    data_dir: Path,
    events: Iterator[Event],
    *,
    max_bytes: int = 64 << 20,
    at_once: int = APPENDED,
) -> int:
    """Write events to audit files, as a daemon does; return how many bytes that are."""
    audit = Audit(data_dir / "audit", max_bytes)
    audit.open()
    while batch := list(islice(events, at_once)):
        audit.append([encode(event) for event in batch], batch[-1].seq)
    audit.close()
    return audit.written


def _rounds(begin: datetime) -> Iterator[Event]:
    when: dict[str, Any] = {"at": begin, "t": 0.0}
    for number in count():
        agent, id_ = AGENTS[number // 10 % len(AGENTS)], f"p{number:08d}"
        if number % 10 == 7:
            yield _decided(agent, id_, Severity.BLOCK, **when)
            yield _told_of(number, agent, **when)
        elif number % 10 == 3:
            yield from _asked(agent, id_, number, **when)
        else:
            yield _decided(agent, id_, Severity.ALLOW, **when)
            yield from _done(agent, id_, ok=number % 50 != 1, **when)


def _decided(agent: str, id_: str, severity: Severity, **more: Any) -> Decided:
    rule = {Severity.BLOCK: "gate.blocklist:rm_rf", Severity.ASK: "classify.high"}.get(severity)
    verdict = Verdict("gate", severity, rule, f"Because of {rule}") if rule else None
    proposal = Proposal(
        type="run_shell",
        id=id_,
        text=f"make test TARGET=module_{id_} VERBOSE=1 && ./scripts/report --id {id_}",
        description=f"Run the tests of module {id_} and write down which of them fail.",
        rationale="The last change touched what they cover, so they may fail now.",
        session=f"session-{id_[:6]}",
        project="shop",
        model="gpt-5.2",
        confidence=0.85,
        cost_usd=0.02,
        paths=(f"src/module_{id_}.py", f"tests/test_module_{id_}.py"),
        context={"files": ["Makefile", "setup.cfg"], "attempt": 1, "note": 'a "quoted" \\ word'},
    )
    return Decided(
        agent=agent,
        proposal=proposal,
        digest=f"sha256:{id_:>064}",
        decision=severity,
        type="run_shell",
        tier="requires_permission",
        reversibility="reversible",
        risk="medium",
        verdicts=(verdict,) if verdict else (),
        **more,
    )


def _done(agent: str, id_: str, *, ok: bool, **when: Any) -> Iterator[Event]:
    tokens = Tokens(input=1200, output=340)
    outcome = Outcome(ok=ok, id=id_, cost_usd=0.018, tokens=tokens, latency_ms=812.5)
    yield Reported(agent=agent, telemetry=outcome, **when)
    yield Settled(
        agent=agent,
        ok=ok,
        id=id_,
        type="run_shell",
        session=f"session-{id_[:6]}",
        model="gpt-5.2",
        cost_usd=0.018,
        tokens=tokens,
        priced_nano=17_000_000,
        latency_ms=812.5,
        **when,
    )


def _asked(agent: str, id_: str, number: int, **when: Any) -> Iterator[Event]:
    request, delivery = f"req_{number:08d}", f"dlv_{number:08d}"
    asks = Asking(request_id=request, action=b"k" * 16, deadline=NOON + timedelta(days=400))
    yield _decided(agent, id_, Severity.ASK, asks=asks, **when)
    sent: dict[str, Any] = {"delivery": delivery, "channel": "email", **when}
    yield Due(recipient="alice", urgency="normal", items=(Item("request", request),), **sent)
    yield Told(state="accepted", provider_id="250 ok", took_s=0.4, **sent)
    if number % 20 == 3:  # every other one stays open
        answer: dict[str, Any] = {
            "answer": "approved",
            "by": "alice",
            "via": "link:email",
            "words": "go on",
        }
        yield Answered(request_id=request, agent=agent, id=id_, **answer, **when)


def _told_of(number: int, agent: str, **when: Any) -> SafetyEvent:
    return SafetyEvent(
        id=f"5afe7d00-0000-4000-8000-{number:012d}",
        timestamp=when["at"],
        event_type="ACTION_BLOCKED",
        agent_id=agent,
        reason="Blocked by gate.blocklist:rm_rf",
        metadata={"rule": "gate.blocklist:rm_rf", "count": 1},
        **when,
    )
