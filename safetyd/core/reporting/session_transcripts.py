"""Records the actions of each live session, and publishes a transcript when the session ends.

Many sessions can end at the same time, and a journal batch is small. Ended sessions are therefore
queued. Each tick publishes as many as fit into a batch, the oldest first.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.approvals.queue import Approvals
from safetyd.core.events.decision_events import Decided, Reported, SessionClosed, Transcribed
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.guards.budget.budget import Budget
from safetyd.core.messages.proposal import Proposal, Tokens
from safetyd.core.messages.telemetry import Iteration, Outcome, SessionEnded, SessionStarted
from safetyd.core.messages.transcript import ASKED_FOR, Entry, Transcript, Usage
from safetyd.core.messages.verdict import ALLOW, strictest
from safetyd.core.open_actions import Actions
from safetyd.core.sessions import Sessions

# Limits on stored actions; further actions are only counted.
MAX_OF_SESSION: Final = 200
MAX_OF_SESSIONS: Final = 1_000  # maximum actions of one agent, divided among its live sessions
MAX_KEPT: Final = 20_000  # of all sessions
MAX_ENDED: Final = 1_024  # maximum sessions that wait for a tick; further ones get no transcript
MAX_ANNOUNCED: Final = 64  # maximum stored announcements of anonymous agents
MAX_CHARS: Final = 300
MAX_DETAILS_BYTES: Final = 500
MAX_BYTES: Final = 40 * 1024  # maximum size of the transcripts of one tick

_encode = msgspec.json.Encoder().encode


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The record of a session. `actions` maps proposal ids, or else numbers, to entries."""

    started_at: datetime
    heard_at: datetime
    provider: str | None = None
    model: str | None = None
    input: int = 0
    output: int = 0
    scheduled_next: str | None = None
    room: int
    actions: dict[str, Entry] = {}
    left_out: int = 0


class Ended(msgspec.Struct):
    agent: str
    session: str
    why: Literal["ended", "idle"]
    at: datetime
    record: Record


class AnnouncedSession(msgspec.Struct, frozen=True, gc=False):
    """The announcement of a session that has no proposal yet."""

    at: datetime
    provider: str | None
    model: str | None


class TranscriptsState(msgspec.Struct):
    live: dict[str, dict[str, Record]] = {}  # by agent and session
    ended: list[Ended] = []  # oldest first
    kept: int = 0
    announced: dict[str, AnnouncedSession] = {}  # by agent and session, oldest first


class Transcripts(Actor):
    """Records sessions and publishes each as one `Transcribed` event."""

    name = "transcripts"
    _state: TranscriptsState

    def __init__(
        self, sessions: Sessions, actions: Actions, approvals: Approvals, budget: Budget
    ) -> None:
        self._sessions = sessions
        self._actions = actions
        self._approvals = approvals
        self._budget = budget
        self._state = TranscriptsState()
        self.hears = hearing(
            on(Decided, self._decided),
            on(Reported, self._reported),
            on(SessionClosed, self._closed),
            on(Ticked, self._due),
            on(Transcribed, self._told),
            on(NameForgotten, self._forgotten),
        )

    def live(self, agent: str) -> Mapping[str, Record]:
        """Return the records of an agent's live sessions, for reading only."""
        return self._state.live.get(agent, {})

    def _decided(self, event: Decided) -> None:
        if event.verdicts and event.stranger:
            return
        proposal = event.proposal
        session, mine = proposal.session or "", self._state.live.get(event.agent)
        record = None if mine is None else mine.get(session)
        if record is None:
            record = self._begin(event, session)
            record.provider = record.provider or proposal.provider
            record.model = record.model or proposal.model
        record.heard_at = event.at
        if len(record.actions) >= record.room or self._state.kept >= MAX_KEPT:
            record.left_out += 1
            return
        said = proposal.description or proposal.text or _about(proposal)
        if len(said) > MAX_CHARS:
            said = said[:MAX_CHARS]
        entry = Entry(event.type, said, event.tier)
        if event.decision is not ALLOW or event.uses is not None:
            _involve_people(entry, event)
        id_ = proposal.id or ""
        self._state.kept += id_ not in record.actions
        record.actions[id_] = entry

    def _reported(self, event: Reported) -> None:
        match event.telemetry:
            case Outcome(id=None, session=session) as outcome:
                if record := self._heard(event, session or ""):
                    self._unproposed(record, outcome)
            case Outcome() as outcome:
                self._outcome(event, outcome)
            case SessionStarted(session=session) as started:
                if record := self._heard(event, session):
                    record.provider = started.provider or record.provider
                    record.model = started.model or record.model
                else:
                    self._announce(event, started)
            case SessionEnded(session=session, scheduled_next=scheduled):
                if (record := self._heard(event, session)) and scheduled is not None:
                    record.scheduled_next = scheduled[:MAX_CHARS]
            case Iteration(session=session):
                self._heard(event, session or "")

    def _announce(self, event: Reported, started: SessionStarted) -> None:
        """Store the announcement of an anonymous agent's session until its first proposal."""
        announced = self._state.announced
        announced[_key(event.agent, started.session)] = AnnouncedSession(
            event.at, started.provider, started.model
        )
        if len(announced) > MAX_ANNOUNCED:
            del announced[next(iter(announced))]

    def _unproposed(self, record: Record, outcome: Outcome) -> None:
        """Record an action that was not proposed first."""
        _spend(record, outcome.tokens)
        if len(record.actions) >= record.room or self._state.kept >= MAX_KEPT:
            record.left_out += 1
            return
        record.actions[f"#{len(record.actions)}"] = entry = Entry(outcome.action_type or "")
        self._state.kept += 1
        _went(entry, outcome)

    def _outcome(self, event: Reported, outcome: Outcome) -> None:
        """Record the outcome of an open action of a live session."""
        action = self._actions.find(event.agent, outcome.id)
        mine = self._state.live.get(event.agent, {})
        if action is None or action.session not in mine:
            return
        record = mine[action.session]
        record.heard_at = event.at
        _spend(record, outcome.tokens)
        if entry := record.actions.get(outcome.id or ""):
            _went(entry, outcome)

    def _heard(self, event: Reported, session: str) -> Record | None:
        """Return the record of a live session, and create it if needed. None if it is not live."""
        if not self._sessions.is_live(event.agent, session):
            return None
        record = self._state.live.get(event.agent, {}).get(session)
        if record is None:
            return self._begin(event, session)
        record.heard_at = event.at
        return record

    def _begin(self, event: Decided | Reported, session: str) -> Record:
        mine = self._state.live.setdefault(event.agent, {})
        room = min(MAX_OF_SESSION, MAX_OF_SESSIONS // (len(mine) + 1))
        mine[session] = record = Record(started_at=event.at, heard_at=event.at, room=room)
        if said := self._state.announced.pop(_key(event.agent, session), None):
            record.started_at, record.provider, record.model = said.at, said.provider, said.model
        return record

    def _closed(self, event: SessionClosed) -> None:
        mine = self._state.live.get(event.agent, {})
        record = mine.pop(event.session, None)
        if record is None:
            return
        if not mine:
            del self._state.live[event.agent]
        if len(self._state.ended) >= MAX_ENDED:
            self._state.kept -= len(record.actions)
            return
        at = event.at if event.why == "ended" else record.heard_at
        self._state.ended.append(Ended(event.agent, event.session, event.why, at, record))

    def _forgotten(self, event: NameForgotten) -> None:
        records = self._state.live.pop(event.agent, {}).values()
        self._state.kept -= sum(len(record.actions) for record in records)

    def _due(self, tick: Ticked) -> Sequence[Event]:
        told: list[Event] = []
        room = MAX_BYTES
        for ended in self._state.ended:
            transcript = self._transcript(ended, tick.at)
            room -= len(_encode(transcript))
            if told and room < 0:
                break
            told.append(Transcribed(at=tick.at, t=tick.t, transcript=transcript))
        return told

    def _told(self, _event: Transcribed) -> None:
        if self._state.ended:
            self._state.kept -= len(self._state.ended.pop(0).record.actions)

    def _transcript(self, ended: Ended, at: datetime) -> Transcript:
        record = ended.record
        entries = [self._as_of_now(id_, entry) for id_, entry in record.actions.items()]
        actions = _fitting(entries)
        return Transcript(
            session_id=ended.session,
            agent=ended.agent,
            started_at=record.started_at,
            ended_at=ended.at,
            why=ended.why,
            provider=record.provider,
            model=record.model,
            token_usage=Usage(record.input, record.output),
            actions=actions,
            left_out=record.left_out + len(entries) - len(actions),
            pending_permissions=self._pending(ended, entries),
            scheduled_next=record.scheduled_next,
            budget_remaining_percent=self._remaining(at),
        )

    def _as_of_now(self, id_: str, entry: Entry) -> Entry:
        """Return an entry with the current state of its request."""
        if entry.status != "pending":
            return entry
        request = self._approvals.find(entry.request_id)
        if request is not None and request.used == id_:
            return msgspec.structs.replace(entry, status="allowed")
        return msgspec.structs.replace(entry, status=request.state if request else "closed")

    def _pending(self, ended: Ended, entries: Iterable[Entry]) -> int:
        """Return the number of pending requests that a session made or repeated."""
        again = {entry.request_id for entry in entries if entry.status == "pending"}
        requests = self._approvals.pending(ended.agent)
        mine = {r.id for r in requests if (r.asked.proposal.session or "") == ended.session}
        return len(mine | again)

    def _remaining(self, at: datetime) -> int | None:
        day = next(self._budget.standings(at))
        if not day.limit:
            return None
        return max(0, day.limit - day.spent - day.reserved) * 100 // day.limit


def _key(agent: str, session: str) -> str:
    return f"{agent} {session}"


def _about(proposal: Proposal) -> str:
    return proposal.paths[0] if proposal.paths else ""


def _involve_people(entry: Entry, event: Decided) -> None:
    """Record in an entry that its action was blocked, or that it needs approval."""
    if event.permission:
        entry.type, entry.action = ASKED_FOR, event.type
    if event.asks is not None:
        entry.status, entry.request_id = "pending", event.asks.request_id
    elif event.uses is not None:
        entry.request_id = event.uses.request_id
    else:
        entry.status, entry.reason = "blocked", strictest(event.verdicts).reason[:MAX_CHARS]


def _went(entry: Entry, outcome: Outcome) -> None:
    entry.status = "done" if outcome.ok else "failed"
    entry.description = outcome.description[:MAX_CHARS] or entry.description
    entry.reason = outcome.error[:MAX_CHARS]
    if outcome.details is not None:
        # Decode it, because a checkpoint would treat raw JSON as MessagePack.
        said = _encode(outcome.details)
        fits = len(said) <= MAX_DETAILS_BYTES
        entry.details = msgspec.json.decode(said) if fits else {"left_out_bytes": len(said)}


def _spend(record: Record, tokens: Tokens | None) -> None:
    if tokens is not None:
        record.input += tokens.input
        record.output += tokens.output


def _fitting(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the first entries, as many as fit into one tick."""
    kept: list[Entry] = []
    room = MAX_BYTES
    for entry in entries:
        room -= len(_encode(entry)) + 1
        if room < 0:
            break
        kept.append(entry)
    return tuple(kept)
