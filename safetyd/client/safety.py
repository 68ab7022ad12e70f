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
from safetyd.client.exceptions import Blocked, Down, InVain, Malformed
from safetyd.client.exchange import PermissionExchange, ProposalExchange, Read, answer_to
from safetyd.client.guard_scope import Stopwatch, error_of, unclaimed, unreached
from safetyd.client.outcome_queue import OutcomeQueue, encoded, tell
from safetyd.client.results import (
    Claim,
    Denied,
    OwnRequest,
    PermissionResult,
    Queued,
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
# On exit, the client waits FLUSH_S for the next delivered outcome and LONGEST_FLUSH_S for all. The
# daemon accepts 50 outcomes a second, so there is time for a full queue.
AGAIN_S: Final = 0.5
FLUSH_S: Final = 2.0
LOOK_S: Final = 5.0  # between two polls of a pending request, whose end is also announced
LONGEST_FLUSH_S: Final = 30.0
TOO_LATE: Final = "nobody can be notified before the agent stops waiting"
ANSWERED: Final = frozenset({"human_denied", "superseded"})  # causes of requests that have ended
NOT_OPEN: Final = (
    "this client is not open; use it inside `async with Safety(...)` or `with SyncSafety(...)`"
)

_log = logging.getLogger("safetyd.client")


class _Open(NamedTuple):
    """The parts of an open client. All are bound to one event loop."""

    link: AgentConnection
    outbox: OutcomeQueue
    work: asyncio.Task[None]


@shows_fields
class Safety(TelemetryCalls[Coroutine[Any, Any, bool]]):
    """Ask safetyd before an agent acts, and report the outcome. Use it with `async with`.

        async with Safety("code") as safety:
            decision = await safety.propose("run_shell", text="git status")
            if decision.allowed:
                ...  # run the command
                await safety.report(decision.id, ok=True)

    `guard` does these steps in one call, and also claims actions that an operator approved.

    If the bus or the daemon does not answer within `deadline_s`, `propose` returns a block with
    cause `unavailable`. It raises only `TypeError`, for a wrong type or an unknown field.

    `agent` is the agent's name. Every option has a default:

    - `url`: the address of the bus, or several separated by commas. Default: `SAFETYD_URL`, then
      the running daemon's address.
    - `key_file`: the agent's key. Default: `SAFETYD_KEY_FILE`, then `keys/agents/<agent>.nk` in the
      data directory. Without a key the agent is anonymous.
    - `data_dir`: the daemon's data directory. Default: `SAFETYD_DATA_DIR`, then the systemd unit's
      directory, then `~/.local/state/safetyd`.
    - `prefix`: the prefix of the bus subjects. Default: `safety.v1`.
    - `deadline_s`: how many seconds to wait for the daemon's answer. Default: 2.
    - `wait_if_unreachable`: whether `wait=True` waits even if nobody can be notified in time, for
      example at night. Default: False, which blocks the action with cause `unreachable`.
    """

    def __init__(self, agent: str, **options: Unpack[Options]) -> None:
        prefix = options.get("prefix", "safety.v1")
        if not is_token(agent):
            raise ValueError(f"{agent!r} is not a valid agent name: use 1 to 64 of A-Z a-z 0-9 _ -")
        if not all(map(is_token, prefix.split("."))):
            raise ValueError(f"{prefix!r} is not a valid subject prefix: use one like safety.v1")
        if unknown := options.keys() - Options.__annotations__.keys():
            raise TypeError(f"Safety has no option {', '.join(map(repr, sorted(unknown)))}")
        self._agent = agent
        self._deadline_s = options.get("deadline_s", DEADLINE_S)
        self._wait_if_unreachable = options.get("wait_if_unreachable", False)
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
        """True while an emergency stop applies to this agent. `propose` still asks the daemon."""
        return self._stops.active

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise RuntimeError("this client is already open")
        link = self._new_link()
        outbox = OutcomeQueue(link, self._deadline_s)
        # A plain task: a task group would wrap the body's exceptions and bind the body to one task.
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
        """Ask whether an action is allowed. Act only if `decision.allowed` is true.

        `action` is the type of the action, such as `run_shell`.

        If the action needs approval, the decision has status `pending` and a `request_id`. Propose
        the same action again later: once an operator has approved it, it is allowed. The id can be
        a new one.

        With `wait=True`, the call waits for the operator's answer. It waits for `timeout_s`, or
        until the request expires if `timeout_s` is not given. If no answer arrives in that time,
        the action is blocked with cause `expired_no_response`. If nobody can be notified in that
        time, the request is withdrawn, and the action is blocked at once with cause `unreachable`.

        If `decision.claim_required` is true, call `claim` before you begin the action.

        If a rate limit ends before the deadline, the client waits and proposes the action again. It
        does not do so if you pass an `id`.
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
        """Propose an action, run the body only if it is allowed, and report the outcome.

            async with safety.guard("run_shell", text="make test"):
                ...  # run the command

        Raises `Blocked` before the body runs if the action is not allowed or still needs approval.
        If the decision requires a claim, `guard` claims the action first. The outcome includes the
        duration and, if the body raises, the error. The exception is raised again.
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
        """Return True if an action would be allowed now without asking an operator.

        This is a dry run: it uses up no limit or approval, and creates no request.
        """
        look: ProposalFields = {**fields, "dry_run": True, "wait": False}
        return (await self.propose(action, **look)).allowed

    async def request_permission(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[AskFields]
    ) -> PermissionResult:
        """Ask an operator to approve an action, even if the guards would allow it.

        Without `wait=True`, the call returns `Queued` immediately. After the operator approves, do
        one of the following:

        - Propose exactly this action with the `request_id`. One such proposal is allowed.
        - Call `request_permission` again with the same arguments. It returns `Approved` once.

        With `wait=True`, the call waits for the operator's answer. It waits for `timeout_minutes`,
        or until the request expires if `timeout_minutes` is not given. `Approved` allows this
        caller to act once; `Timeout` means that no operator answered. If nobody can be notified in
        that time, the result is `Denied` with cause `unreachable`.

        Returns `Denied` if a guard blocks the action. If the daemon does not answer, the cause is
        `unavailable`.
        """
        said = draft_ask(self._agent, action, fields)
        if (refusal := self._refusal(said)) is not None:
            return Denied(reason=refusal.reason, cause=refusal.cause)
        if self._open is None:
            return _unavailable(NOT_OPEN)
        link, patience_s = self._open.link, self._patience_s(said, deadline_s)
        try:
            try:
                asking = PermissionExchange(
                    link, said, wait_if_unreachable=self._wait_if_unreachable
                )
                return await asking.answer(patience_s)
            except InVain as vain:
                if await self._withdrawn(vain.pending):
                    given_up = unreached(vain.pending, vain.reachable_from)
                    return Denied(reason=given_up.reason, cause=given_up.cause)
            again = PermissionExchange(link, said, wait_if_unreachable=True)
            return await again.answer(patience_s)
        except Down as down:
            return _unavailable(str(down))

    async def permission(self, request_id: str, /) -> PermissionResult:
        """Return the current result of one of this agent's requests. It uses up no approval."""
        try:
            return await self._question({"request_id": request_id}, read_result)
        except Down as down:
            return _unavailable(str(down))

    async def answered(
        self, request_id: str, /, *, timeout_s: float, proposal: str | None = None
    ) -> PermissionResult:
        """Wait for the end of a pending request, and return its result. It uses up no approval.

        If the result is `Approved`, propose the action again. If the request is still pending after
        `timeout_s`, the result is `Queued`.

        `proposal` is the id of the pending decision. Without it, the end of the request is noticed
        up to five seconds later.
        """
        if self._open is None:
            return _unavailable(NOT_OPEN)
        ends = anyio.current_time() + timeout_s
        with self._open.link.listen(proposal or new_id()) as listener:
            while True:
                result = await self.permission(request_id)
                if isinstance(result, Denied) and result.cause == "unavailable":
                    result = Queued(request_id=request_id)  # the daemon may come back
                rest_s = ends - anyio.current_time()
                if not isinstance(result, Queued) or rest_s <= 0:
                    return result
                with anyio.move_on_after(min(LOOK_S, rest_s)):
                    await listener.hear()

    async def pending_requests(self) -> tuple[OwnRequest, ...]:
        """Return this agent's requests that are pending, or approved and not yet used.

        If the daemon does not answer, log a warning and return an empty tuple.
        """
        try:
            return await self._question({"open": True}, read_open)
        except Down as down:
            _log.warning("cannot get this agent's requests: %s", down)
            return ()

    async def rolled_back(self, *, timeout_s: float | None = None) -> Rollback | None:
        """Wait for a rollback in a project of this agent. Then read the project's files again.

        Each rollback since the client was opened is returned once. Returns None if there is none
        within `timeout_s`. After the first call, rollbacks that happen while the connection is
        broken are returned too.
        """
        with anyio.move_on_after(timeout_s):
            while self._open is not None:
                try:
                    return await self._rollbacks.next(self._ask_rollbacks)
                except Down as down:
                    _log.debug("cannot get rollbacks: %s", down)
                    await anyio.sleep(AGAIN_S)
        return None

    async def last_rollbacks(self) -> tuple[Rollback, ...]:
        """Return the last rollback of each project of this agent, the oldest first.

        An agent that has just started can compare `at` with the time when it last read its files.
        If the daemon does not answer, log a warning and return an empty tuple.
        """
        try:
            return await self._ask_rollbacks()
        except Down as down:
            _log.warning("cannot get rollbacks: %s", down)
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
        """Claim an approved action before you begin it. Begin only if `claim.granted` is true.

        Only one claimant is granted the action. The client retries under the same claimant if an
        answer is lost. Pass `claimant` to be able to repeat the claim later.
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
        ok: bool = True,
        proposal: str | None = None,
        **fields: Unpack[OutcomeFields],
    ) -> bool:
        """Record an action that was taken, for summaries. Returns the same as `report`."""
        fields["action_type"] = action
        return await self.report(proposal, ok=ok, **fields)

    async def report(
        self, proposal: str | None, /, *, ok: bool, **fields: Unpack[OutcomeFields]
    ) -> bool:
        """Queue the outcome of an action. Return True if it was queued.

        `proposal` is `decision.id`, or None for an action without a proposal. Pass `ok=False` only
        if the action could not be carried out. A failed test or an exit code is a result:
        `ok=True, details={"exit_code": 1}`.

        While it is open, the client sends a queued outcome until the daemon acknowledges it. On
        exit it waits up to 30 seconds for the delivery. An outcome without a proposal may be
        counted twice if an acknowledgement is lost.

        If the client is not open, the queue is full or a value is malformed, log a warning and
        return False.
        """
        outcome = encoded(proposal, fields, ok=ok)
        if outcome and self._open and await self._open.outbox.put(outcome):
            return True
        _log.warning("the outcome of %s was not queued", proposal)
        return False

    async def _report_surely(
        self, proposal: str, *, ok: bool, **fields: Unpack[OutcomeFields]
    ) -> None:
        """Report the outcome even if the task is cancelled, because the action has begun."""
        with anyio.CancelScope(shield=True):
            await self.report(proposal, ok=ok, **fields)

    def closed(self, action: str, fields: Mapping[str, object]) -> Decision:
        """Return the block for a proposal while the client is not open."""
        said = draft(self._agent, action, fields)
        refusal = self._refusal(said)
        return said.refused("unavailable", NOT_OPEN) if refusal is None else refusal

    async def _cleared(
        self, action: str, deadline_s: float | None, fields: ProposalFields
    ) -> Decision:
        """Return an allow, claimed if necessary, or raise `Blocked`."""
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
            _log.warning("telemetry was not sent: %s", exc)
            return False

    async def _told(self, link: AgentConnection, payload: bytes) -> bool:
        return (await tell(link, payload, self._deadline_s)).ok

    def _refusal(self, said: Draft) -> Decision | None:
        """Return a block if the proposal is malformed or agents are switched off, else None."""
        if said.flaw:
            return said.refused("malformed", said.flaw)
        if reason := disabled(os.environ):
            return said.refused("disabled", reason)
        return None

    async def _ask(self, said: Draft, ends: float) -> Decision:
        try:
            return await self._decision(said, ends)
        except Down as down:
            return said.refused("unavailable", str(down))

    async def _decision(self, said: Draft, ends: float) -> Decision:
        """Return the daemon's decision. Raise `Down` if there is none."""
        if self._open is None:
            raise Down(NOT_OPEN)
        # Guards that count errors need this agent's earlier outcomes before they decide. At least
        # half of the time is left for the proposal.
        await self._open.outbox.flush((ends - anyio.current_time()) / 2)
        decision = await self._answer(self._open.link, said, ends)
        if decision.allowed:
            self._stops.allowed()
        return decision

    async def _answer(self, link: AgentConnection, said: Draft, ends: float) -> Decision:
        """Return the daemon's decision, or a block if waiting for an operator would be in vain."""
        asking = ProposalExchange(link, said, wait_if_unreachable=self._wait_if_unreachable)
        try:
            return await asking.answer(ends - anyio.current_time())
        except InVain as vain:
            if await self._withdrawn(vain.pending):
                return unreached(vain.pending, vain.reachable_from)
        again = ProposalExchange(link, said, wait_if_unreachable=True)
        return await again.answer(ends - anyio.current_time())

    async def _withdrawn(self, pending: Decision) -> bool:
        """Withdraw a request. Return False if it was answered in the meantime."""
        said = {"request_id": pending.request_id, "withdraw": True, "rationale": TOO_LATE}
        try:
            result = await self._question(said, read_result)
        except Down as down:
            _log.warning("request %s was not withdrawn: %s", pending.request_id, down)
            return True
        # It stays pending if another proposal of this agent joined it.
        ended = isinstance(result, Denied) and result.cause not in ANSWERED
        return ended or isinstance(result, Queued)


async def _background(link: AgentConnection, outbox: OutcomeQueue) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.keep)
        await outbox.run()
        tasks.cancel_scope.cancel()


async def _flush(outbox: OutcomeQueue, work: asyncio.Task[None]) -> None:
    """Wait until all outcomes are delivered, none was delivered for FLUSH_S, or time is up."""
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
