"""The client for agents that run in an event loop."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar, Unpack

import anyio
from msgspec import json

from safetyd.client.agent_connection import AgentConnection
from safetyd.client.arguments import AskFields, Options, OutcomeFields, ProposalFields, shows_fields
from safetyd.client.discovery import disabled, find
from safetyd.client.draft import Draft, draft, draft_ask, new_id
from safetyd.client.encoding import check, encode
from safetyd.client.exceptions import Blocked, Down, Malformed
from safetyd.client.exchange import PermissionExchange, ProposalExchange, Read, answer_to
from safetyd.client.guard_scope import Stopwatch, error_of, unclaimed
from safetyd.client.outcome_queue import OutcomeQueue, encoded, tell
from safetyd.client.results import (
    Claim,
    Denied,
    OwnRequest,
    PermissionResult,
    read_claim,
    read_open,
    read_result,
)
from safetyd.client.rollback_inbox import RollbackInbox, read_rollbacks
from safetyd.client.stop_state import StopState
from safetyd.client.telemetry_calls import TelemetryCalls
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import is_token
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.telemetry import AnyTelemetry

T = TypeVar("T")

DEADLINE_S: Final = 2.0
PERSON_S: Final = 3600.0
# Leaving waits for outcomes to be delivered: so long for the next one, and so long for all. The
# daemon takes 50 a second, so that a full queue arrives.
AGAIN_S: Final = 0.5
FLUSH_S: Final = 2.0
LONGEST_FLUSH_S: Final = 30.0
NOT_OPEN: Final = (
    "this client is not open; use it inside `async with Safety(...)` or `with SyncSafety(...)`"
)

_log = logging.getLogger("safetyd.client")


class _Open(NamedTuple):
    """What exists between entering and leaving, all of it bound to one event loop."""

    link: AgentConnection
    outbox: OutcomeQueue
    work: asyncio.Task[None]


@shows_fields
class Safety(TelemetryCalls[Coroutine[Any, Any, bool]]):
    """Asks safetyd before an agent acts, and tells it how that went. Use it with `async with`.

    Whatever is missing (the bus, the daemon, an answer), `propose` returns a block with cause
    `unavailable` within `deadline_s`. It raises only for what the caller wrote wrong.
    """

    def __init__(self, agent: str, **options: Unpack[Options]) -> None:
        prefix = options.get("prefix", "safety.v1")
        if not is_token(agent):
            raise ValueError(f"{agent!r} is no name for an agent: use 1 to 64 of A-Z a-z 0-9 _ -")
        if not all(map(is_token, prefix.split("."))):
            raise ValueError(f"{prefix!r} is no prefix of subjects, such as safety.v1")
        if unknown := options.keys() - Options.__annotations__.keys():
            raise TypeError(f"Safety has no option {', '.join(map(repr, sorted(unknown)))}")
        self._agent = agent
        self._deadline_s = options.get("deadline_s", DEADLINE_S)
        self._stops = StopState(agent)
        self._rollbacks = RollbackInbox(agent)
        place = (options.get("url"), options.get("key_file"), options.get("data_dir"))
        self._new_link = partial(
            AgentConnection,
            agent,
            prefix,
            partial(find, agent, *place),
            self._stops,
            self._rollbacks,
        )
        self._open: _Open | None = None

    @property
    def stopped(self) -> bool:
        """Whether people stopped this agent or all. The daemon is asked all the same."""
        return self._stops.active

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise RuntimeError("this client is already open")
        link = self._new_link()
        outbox = OutcomeQueue(link, self._deadline_s)
        # A task of its own: a group here would wrap what the body raises, and bind the body's task.
        work = asyncio.get_running_loop().create_task(_background(link, outbox))
        self._open = _Open(link, outbox, work)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._open is None:
            return
        outbox, work = self._open.outbox, self._open.work
        had, began = outbox.undelivered, anyio.current_time()
        outbox.close()
        with anyio.CancelScope(shield=True):
            await _flush(outbox, work)
            work.cancel()
            await asyncio.wait({work}, timeout=FLUSH_S)
        self._open = None
        if left := outbox.undelivered:
            took_s = anyio.current_time() - began
            _log.error("closed with %d of %d outcomes undelivered after %.1f s", left, had, took_s)

    async def propose(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[ProposalFields]
    ) -> Decision:
        """Ask whether an action of this type may be taken; act only if `allowed` is true.

        With `wait=True` the answer of a person is awaited for `timeout_s`, or as long as the daemon
        keeps the request open, and the daemon's own for `deadline_s` more; nobody's answer is a
        block with cause `expired_no_response`. Without it, what needs a person is `pending`, and
        the same action proposed again once it is approved is allowed, under whatever id.

        An allow with `claim_required` must be claimed before it is begun. When a rate limit asks
        for no more patience than the deadline has left, the proposal is made anew, unless the
        caller chose its id.
        """
        said = draft(self._agent, action, fields)
        if (refusal := self._refusal(said)) is not None:
            return refusal
        ends = anyio.current_time() + self._patience_s(said, deadline_s)
        decision = await self._ask(said, ends)
        while fields.get("id") is None and _fits(decision, ends):
            await anyio.sleep(decision.retry_after_s or 0.0)
            decision = await self._ask(draft(self._agent, action, fields), ends)
        return decision

    @asynccontextmanager
    async def guard(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[ProposalFields]
    ) -> AsyncIterator[Decision]:
        """Propose, run the body only if allowed, and report success, error and duration.

        A body cannot be skipped in silence: if it is not allowed, `Blocked` is raised before it.
        What a person approved and only one may do is claimed first.
        """
        decision = await self._cleared(action, deadline_s, fields)
        watch = Stopwatch()
        try:
            yield decision
        except BaseException as exc:
            await self._report_surely(
                decision.id, ok=False, error=error_of(exc), latency_ms=watch.ms
            )
            raise
        await self._report_surely(decision.id, ok=True, latency_ms=watch.ms)

    async def is_auto_allowed(self, action: str, /, **fields: Unpack[ProposalFields]) -> bool:
        """Say whether an action would pass without a person. Nothing is used up or remembered."""
        look: ProposalFields = {**fields, "dry_run": True, "wait": False}
        return (await self.propose(action, **look)).allowed

    async def request_permission(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[AskFields]
    ) -> PermissionResult:
        """Ask a person about an action of this type, whatever the guards would say of it.

        With `wait=True` somebody's answer is awaited as by `propose`, for `timeout_minutes`; an
        `Approved` is for this caller, to act on once. Otherwise `Queued` comes at once, and when
        it is approved, one proposal of this type that carries its `request_id` is allowed, or the
        same ask made again is `Approved`. Whatever is missing, the answer is `Denied` with cause
        `unavailable`.
        """
        said = draft_ask(self._agent, action, fields)
        if (refusal := self._refusal(said)) is not None:
            return Denied(reason=refusal.reason, cause=refusal.cause)
        if self._open is None:
            return _unavailable(NOT_OPEN)
        try:
            asking = PermissionExchange(self._open.link, said)
            return await asking.answer(self._patience_s(said, deadline_s))
        except Down as down:
            return _unavailable(str(down))

    async def permission(self, request_id: str, /) -> PermissionResult:
        """Return what has come of an own request so far; to look at an approval does not use it."""
        try:
            return await self._question({"request_id": request_id}, read_result)
        except Down as down:
            return _unavailable(str(down))

    async def pending_requests(self) -> tuple[OwnRequest, ...]:
        """Return the own requests that are open, and those approved that nothing has used yet.

        Nothing comes back, with a warning in the log, when nobody answers.
        """
        try:
            return await self._question({"open": True}, read_open)
        except Down as down:
            _log.warning("the own requests are not known: %s", down)
            return ()

    async def rolled_back(self, *, timeout_s: float | None = None) -> Rollback | None:
        """Wait until files of a project in which this agent works were put back: read them anew.

        Each rollback since the client was opened is returned once; None if none came in time.
        What was missed while the connection was broken is asked for, from the first call on.
        """
        with anyio.move_on_after(timeout_s):
            while self._open is not None:
                try:
                    return await self._rollbacks.next(self._ask_rollbacks)
                except Down as down:
                    _log.debug("rollbacks are not known: %s", down)
                    await anyio.sleep(AGAIN_S)
        return None

    async def last_rollbacks(self) -> tuple[Rollback, ...]:
        """Return the last rollback of each project in which this agent works, the oldest first.

        Who has just started compares `at` with the time from which it knows its files. Nothing
        comes back, with a warning in the log, when nobody answers.
        """
        try:
            return await self._ask_rollbacks()
        except Down as down:
            _log.warning("rollbacks are not known: %s", down)
            return ()

    async def _ask_rollbacks(self) -> tuple[Rollback, ...]:
        return await self._question({"rollbacks": True}, read_rollbacks)

    async def claim(
        self,
        decision: Decision,
        /,
        *,
        claimant: str | None = None,
        deadline_s: float | None = None,
    ) -> Claim:
        """Say that an approved action is about to be done; begin it only if `granted` is true.

        One claimant is granted it. A lost answer is asked for again under the same name, which a
        caller that gives `claimant` can also do later.
        """
        said = {"id": decision.id, "digest": decision.digest, "claimant": claimant or new_id()}
        if reason := disabled(os.environ):
            return Claim(granted=False, cause="disabled", reason=reason)
        try:
            return await self._question(said, read_claim, "claim", deadline_s)
        except Down as down:
            return Claim(granted=False, cause="unavailable", reason=str(down))

    async def log_action(
        self,
        action: str,
        /,
        *,
        description: str = "",
        details: Mapping[str, object] | None = None,
        ok: bool = True,
        proposal: str | None = None,
    ) -> bool:
        """Put an action that was taken on record, for summaries; true as for `report`."""
        return await self.report(
            proposal, ok=ok, action_type=action, description=description, details=details or {}
        )

    async def report(
        self, proposal: str | None, /, *, ok: bool, **fields: Unpack[OutcomeFields]
    ) -> bool:
        """Tell how an action went; true means that this is sent until the daemon has it.

        `ok` is false when the action could not be carried out. A failed test or an exit code is a
        result: `ok=True, details={"exit_code": 1}`. False comes back, with a warning in the log,
        when there is no room within the deadline or a value is malformed. An outcome without a
        proposal's id may be counted twice if an acknowledgement is lost.
        """
        outcome = encoded(proposal, fields, ok=ok)
        if outcome and self._open and await self._open.outbox.put(outcome):
            return True
        _log.warning("the outcome of %s was not taken", proposal)
        return False

    async def _report_surely(
        self, proposal: str, *, ok: bool, **fields: Unpack[OutcomeFields]
    ) -> None:
        """Report even while cancelled: the action was begun, and room may take a moment."""
        with anyio.CancelScope(shield=True):
            await self.report(proposal, ok=ok, **fields)

    def closed(self, action: str, fields: Mapping[str, object]) -> Decision:
        """Return what `propose` returns when the client is not open."""
        said = draft(self._agent, action, fields)
        refusal = self._refusal(said)
        return said.refused("unavailable", NOT_OPEN) if refusal is None else refusal

    async def _cleared(
        self, action: str, deadline_s: float | None, fields: ProposalFields
    ) -> Decision:
        """Return an allow that may be acted on now, or raise `Blocked`."""
        decision = await self.propose(action, deadline_s=deadline_s, **fields)
        if not decision.allowed:
            raise Blocked(decision)
        if decision.claim_required:
            claim = await self.claim(decision, deadline_s=deadline_s)
            if not claim.granted:
                raise Blocked(unclaimed(decision, claim))
        return decision

    async def _question(
        self,
        said: Mapping[str, object],
        read: Read[T],
        verb: str = "permission",
        deadline_s: float | None = None,
    ) -> T:
        if self._open is None:
            raise Down(NOT_OPEN)
        patience_s = self._deadline_s if deadline_s is None else deadline_s
        return await answer_to(self._open.link, verb, json.encode(said), read, patience_s)

    def _patience_s(self, said: Draft, deadline_s: float | None) -> float:
        patience_s = self._deadline_s if deadline_s is None else deadline_s
        if not said.wait:
            return patience_s
        return patience_s + (PERSON_S if said.timeout_s is None else said.timeout_s)

    async def _tell(self, telemetry: AnyTelemetry) -> bool:
        try:
            payload = encode(telemetry)
            check(payload, type(telemetry))
            return self._open is not None and await self._told(self._open.link, payload)
        except (Malformed, Down) as exc:
            _log.warning("telemetry was not taken: %s", exc)
            return False

    async def _told(self, link: AgentConnection, payload: bytes) -> bool:
        return (await tell(link, payload, self._deadline_s)).ok

    def _refusal(self, said: Draft) -> Decision | None:
        """Return the block for what need not be asked."""
        if said.flaw:
            return said.refused("malformed", said.flaw)
        if reason := disabled(os.environ):
            return said.refused("disabled", reason)
        return None

    async def _ask(self, said: Draft, ends: float) -> Decision:
        if self._open is None:
            return said.refused("unavailable", NOT_OPEN)
        # A guard that counts errors must know of this agent's before it judges what comes next.
        await self._open.outbox.flush()
        asking = ProposalExchange(self._open.link, said)
        try:
            decision = await asking.answer(ends - anyio.current_time())
        except Down as down:
            return said.refused("unavailable", str(down))
        if decision.allowed:
            self._stops.allowed()
        return decision


async def _background(link: AgentConnection, outbox: OutcomeQueue) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.keep)
        await outbox.run()
        tasks.cancel_scope.cancel()


async def _flush(outbox: OutcomeQueue, work: asyncio.Task[None]) -> None:
    """Wait until all outcomes are delivered, or none is any more."""
    ends = anyio.current_time() + LONGEST_FLUSH_S
    before = None
    while outbox.undelivered != before and (rest_s := ends - anyio.current_time()) > 0:
        before = outbox.undelivered
        await asyncio.wait({work}, timeout=min(FLUSH_S, rest_s))


def _unavailable(reason: str) -> Denied:
    return Denied(reason=reason, cause="unavailable")


def _fits(decision: Decision, ends: float) -> bool:
    if decision.cause != "rate_limit" or decision.retry_after_s is None:
        return False
    return anyio.current_time() + decision.retry_after_s < ends
