"""What must be true of the journal, answers, audit files and PostgreSQL, whatever has failed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from safetyd.core.decision_cache import DecisionsConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.cluster_events import WriterChanged
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.events.request_events import Answered, Claimed
from safetyd.core.messages.verdict import ALLOW
from safetyd.core.policy import Policy
from safetyd.journal.audit import HASHED, files
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint, read, state_digest
from tests.cluster.fleet import BURST, CHAIN_USD, PER_MINUTE, Fleet, StopHeld
from tests.cluster.journal_record import WrittenBatch
from tests.cluster.steady_agent import SteadyAgent
from tests.journeys.agents import Heard
from tests.journeys.audit_record import UNRECORDED
from tests.postgres_server import PostgresServer


class Observed(NamedTuple):
    """What agents, executors and daemons have seen so far."""

    answers: dict[str, list[Heard]]
    granted: list[tuple[str, str]]
    audits: dict[str, list[bytes]]
    checkpoints: dict[str, list[SavedCheckpoint]]


def observed(fleet: Fleet) -> Observed:
    return Observed(
        {agent.name: agent.history.heard for agent in fleet.agents},
        fleet.asker.granted.copy(),
        {name: _audit_lines(daemon.data_dir) for name, daemon in fleet.daemons.items()},
        {name: _saved(daemon.data_dir) for name, daemon in fleet.daemons.items()},
    )


def check(fleet: Fleet) -> None:
    """Compare everything that was seen with the journal."""
    seen = observed(fleet)
    fleet.read_journal()
    batches = fleet.record.batches
    lines = [line for batch in batches if batch.lines for line in batch.lines.split(b"\n")]
    events = [decode(line) for line in lines]
    numbers = [event.seq for event in events]
    assert numbers == list(range(1, len(events) + 1)), "events are numbered without a gap"
    one_writer_at_a_time(batches)
    each_id_decided_once(events)
    for agent in fleet.agents:
        answers_are_recorded(agent, seen.answers[agent.name], events)
        no_allow_after_a_stop(agent, seen.answers[agent.name], fleet.stops)
    no_allow_is_recorded_during_a_stop(events)
    budgets_hold(events)
    rate_limit_holds(fleet.limited, seen.answers[fleet.limited.name])
    approvals_used_once(events, seen.granted)
    hashes: dict[int, bytes] = {}
    for daemon in fleet.daemons:
        audit_equals_journal(daemon, seen.audits[daemon], lines, hashes)
        states_equal_journal(daemon, seen.checkpoints[daemon], events)
    if fleet.postgres is not None:
        postgres_equals_journal(fleet.postgres, lines, hashes)
    written = sum(isinstance(event, WriterChanged) for event in events)
    print(f"{len(events)} events of {written} writers are consistent")


def one_writer_at_a_time(batches: Sequence[WrittenBatch]) -> None:
    boot, term = "", 0
    for batch in batches:
        changes = [event for event in batch.events if isinstance(event, WriterChanged)]
        for change in changes:
            assert len(batch.events) == 1
            assert change.term == term + 1, f"term {change.term} after {term}"
            boot, term = batch.boot, change.term
        assert batch.boot == boot, f"batch {batch.sequence} is not from the writer of term {term}"


def each_id_decided_once(events: Iterable[Event]) -> None:
    """Check that a repeated id is decided again only for a reason.

    Its allow has expired, or its request was approved before a late copy of the proposal arrived.
    """
    decided: dict[tuple[str, str], Decided] = {}
    for event in events:
        if isinstance(event, Decided) and event.first:
            known = decided.get((event.agent, event.id))
            assert known is None or _has_expired(known, event) or _is_approved(known, event), (
                f"both decide {event.id}: {known} and {event}"
            )
            decided[event.agent, event.id] = event


def _has_expired(known: Decided, event: Decided) -> bool:
    # The clocks of two daemons may differ by as long as an allow is valid.
    valid = timedelta(seconds=DecisionsConfig().ttl_s)
    return known.decision is ALLOW and event.at >= known.at + valid


def _is_approved(known: Decided, event: Decided) -> bool:
    asked, used = known.asks, event.uses
    return asked is not None and used is not None and asked.request_id == used.request_id


def answers_are_recorded(
    agent: SteadyAgent, answers: Sequence[Heard], events: Sequence[Event]
) -> None:
    for heard in answers:
        decision = heard.decision
        if decision.seq is None:
            assert not decision.allowed
            assert decision.cause in UNRECORDED, heard
            continue
        found = events[decision.seq - 1] if decision.seq <= len(events) else None
        assert isinstance(found, Decided), f"not in the journal: {heard}"
        recorded = found.agent, found.id, found.digest, found.decision
        assert recorded == (agent.name, heard.id, decision.digest, decision.decision)
        assert agent.history.digests[heard.id] == decision.digest


def no_allow_after_a_stop(
    agent: SteadyAgent, answers: Sequence[Heard], stops: Sequence[StopHeld]
) -> None:
    """Check proposals that were sent after a stop was acknowledged, and answered before its end."""
    for stop in stops:
        for heard in answers:
            during = stop.acknowledged_t < agent.history.sent[heard.id] < heard.t < stop.lifted_t
            assert not (during and heard.decision.allowed), f"allowed during a stop: {heard}"


def no_allow_is_recorded_during_a_stop(events: Iterable[Event]) -> None:
    stops: set[str] = set()
    for event in events:
        if isinstance(event, Stopped) and event.agent is None:
            stops.add(event.source)
        elif isinstance(event, Resumed) and event.agent is None:
            stops -= set(event.sources)
        elif isinstance(event, Decided) and stops:
            assert event.decision is not ALLOW, f"event {event.seq} allows despite {stops}"


def budgets_hold(events: Iterable[Event]) -> None:
    spent: dict[str, float] = defaultdict(float)
    for event in events:
        if isinstance(event, Decided) and event.decision is ALLOW and event.first:
            spent[event.proposal.chain or ""] += event.proposal.cost_usd or 0.0
    over = {chain: usd for chain, usd in spent.items() if chain and usd > CHAIN_USD + 1e-6}
    assert not over, f"overspent: {over}"


def rate_limit_holds(agent: SteadyAgent, answers: Sequence[Heard]) -> None:
    """Check every period, by the clock of the agent: no decision was made before it was sent."""
    first: dict[str, float] = {}
    for heard in answers:
        if heard.decision.allowed:
            first.setdefault(heard.id, heard.t)
    allowed = sorted((agent.history.sent[id_], t) for id_, t in first.items())
    for begin, (sent, _) in enumerate(allowed):
        heard_at = sorted(t for _, t in allowed[begin:])
        for count, t in enumerate(heard_at, 1):
            most = BURST + (t - sent) * PER_MINUTE / 60 + 1
            assert count <= most, f"{count} actions in {t - sent:.1f} s, at most {most:.1f}"


def approvals_used_once(events: Sequence[Event], granted: Sequence[tuple[str, str]]) -> None:
    answered = Counter(event.request_id for event in events if isinstance(event, Answered))
    claims = [event for event in events if isinstance(event, Claimed)]
    claimed = {event.request_id: event.claimant for event in claims}
    used = Counter(event.request_id for event in claims)
    used.update(e.uses.request_id for e in events if isinstance(e, Decided) and e.uses)
    assert max(answered.values(), default=1) == 1
    assert max(used.values(), default=1) == 1
    for request, claimant in granted:
        assert claimed[request] == claimant, f"{request} was granted to {claimant}"
    twice = [r for r, times in Counter(request for request, _ in granted).items() if times > 1]
    assert not twice, f"granted to both executors: {twice}"


def audit_equals_journal(
    daemon: str, audit: Sequence[bytes], lines: Sequence[bytes], hashes: dict[int, bytes]
) -> None:
    """Compare a daemon's audit files with the journal, and with `hashes` of other daemons."""
    before = 0
    for line in audit:
        seq = decode(line).seq
        assert seq > before, f"{daemon}: event {seq} follows {before}"
        assert HASHED.sub(b"}", line) == lines[seq - 1], f"{daemon}: event {seq} differs"
        (digest,) = HASHED.findall(line)
        assert hashes.setdefault(seq, digest) == digest, f"{daemon}: the hash of {seq} differs"
        before = seq


def postgres_equals_journal(
    postgres: PostgresServer, lines: Sequence[bytes], hashes: dict[int, bytes]
) -> None:
    """Check that PostgreSQL has each event once. The journal may have grown since it was read."""
    rows = postgres.execute("SELECT seq, line, hash FROM safetyd.events ORDER BY seq")
    assert [seq for seq, _, _ in rows] == list(range(1, len(rows) + 1))
    for (seq, line, digest), written in zip(rows, lines, strict=False):
        assert line.encode() == written, f"PostgreSQL: event {seq} differs"
        assert hashes.get(seq, digest.encode()) == digest.encode(), f"PostgreSQL: hash of {seq}"
    assert postgres.execute("SELECT 1 FROM safetyd.gaps") == []


def states_equal_journal(
    daemon: str, checkpoints: Iterable[SavedCheckpoint], events: Sequence[Event]
) -> None:
    """Compare a daemon's checkpoints with engines that are rebuilt from the journal."""
    for saved in checkpoints:
        engine = Engine(Policy())
        engine.replay(events[: saved.engine.seq])
        rebuilt = engine.save()()
        differing = [
            name for name, state in rebuilt.actors.items() if saved.engine.actors.get(name) != state
        ]
        assert state_digest(rebuilt) == state_digest(saved.engine), f"{daemon}: {differing}"


def _audit_lines(data_dir: Path) -> list[bytes]:
    """Return the lines of all audit files, without one that is being written."""
    return [
        line
        for path in files(data_dir / "audit")
        for line in path.read_bytes().splitlines(keepends=True)[1:]
        if line.endswith(b"\n")
    ]


def _saved(data_dir: Path) -> list[SavedCheckpoint]:
    found = []
    for path in Checkpoints(data_dir / "checkpoints").paths():
        with suppress(FileNotFoundError):  # it was just replaced by a newer one
            found.append(read(path, path.read_bytes()))
    return found
