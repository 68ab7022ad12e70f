"""The client for agents that run in an event loop."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Self, Unpack

import anyio

from safetyd.client.asking import Asking
from safetyd.client.down import Down
from safetyd.client.draft import Draft, draft
from safetyd.client.fields import Options, OutcomeFields, ProposalFields
from safetyd.client.guarded import Blocked, Stopwatch, error_of, printable
from safetyd.client.link import Link
from safetyd.client.outbox import Outbox, tell
from safetyd.client.stops import Stops
from safetyd.client.telling import Telling
from safetyd.client.whereabouts import disabled, find
from safetyd.client.wire import Malformed, check, encode
from safetyd.core.decision import Decision
from safetyd.core.proposal import is_token
from safetyd.core.telemetry import AnyTelemetry, Outcome

DEADLINE_S: Final = 2.0
PERSON_S: Final = 3600.0
FLUSH_S: Final = 2.0
NOT_OPEN: Final = (
    "this client is not open; use it inside `async with Safety(...)` or `with SyncSafety(...)`"
)

_log = logging.getLogger("safetyd.client")


class _Open(NamedTuple):
    """What exists between entering and leaving, all of it bound to one event loop."""

    link: Link
    outbox: Outbox
    work: asyncio.Task[None]


class Safety(Telling[Coroutine[Any, Any, bool]]):
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
        self._stops = Stops(agent)
        place = (options.get("url"), options.get("key_file"), options.get("data_dir"))
        self._new_link = partial(Link, agent, prefix, partial(find, agent, *place), self._stops)
        self._open: _Open | None = None

    @property
    def stopped(self) -> bool:
        """Whether people stopped this agent or all. The daemon is asked all the same."""
        return self._stops.active

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise RuntimeError("this client is already open")
        link = self._new_link()
        outbox = Outbox(link, self._deadline_s)
        # A task of its own: a group here would wrap what the body raises, and bind the body's task.
        work = asyncio.get_running_loop().create_task(_background(link, outbox))
        self._open = _Open(link, outbox, work)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._open is None:
            return
        outbox, work = self._open.outbox, self._open.work
        outbox.close()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({work}, timeout=FLUSH_S)
            work.cancel()
            await asyncio.wait({work}, timeout=FLUSH_S)
        self._open = None
        if outbox.undelivered:
            _log.error("closed with %d outcomes undelivered", outbox.undelivered)

    async def propose(
        self, action: str, /, *, deadline_s: float | None = None, **fields: Unpack[ProposalFields]
    ) -> Decision:
        """Ask whether an action of this type may be taken; act only if `allowed` is true.

        With `wait=True` the answer of a person is awaited for `timeout_s` (an hour if not given),
        and the daemon's own for `deadline_s` more. When a rate limit asks for no more patience
        than the deadline has left, the proposal is made anew, unless the caller chose its id.
        """
        said = draft(self._agent, action, fields)
        if (refusal := self._refusal(said)) is not None:
            return refusal
        patience_s = self._deadline_s if deadline_s is None else deadline_s
        if said.wait:
            patience_s += PERSON_S if said.timeout_s is None else said.timeout_s
        ends = anyio.current_time() + patience_s
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
        """
        decision = await self.propose(action, deadline_s=deadline_s, **fields)
        if not decision.allowed:
            raise Blocked(decision)
        watch = Stopwatch()
        try:
            yield decision
        except BaseException as exc:
            await self._report_surely(
                decision.id, ok=False, error=error_of(exc), latency_ms=watch.ms
            )
            raise
        await self._report_surely(decision.id, ok=True, latency_ms=watch.ms)

    async def report(
        self, proposal: str | None, /, *, ok: bool, **fields: Unpack[OutcomeFields]
    ) -> bool:
        """Tell how an action went; true means that this is sent until the daemon has it.

        `ok` is false when the action could not be carried out. A failed test or an exit code is a
        result: `ok=True, details={"exit_code": 1}`. False comes back, with a warning in the log,
        when there is no room within the deadline or a value is malformed. An outcome without a
        proposal's id may be counted twice if an acknowledgement is lost.
        """
        outcome = _outcome(proposal, ok, fields)
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

    async def _tell(self, telemetry: AnyTelemetry) -> bool:
        try:
            payload = encode(telemetry)
            check(payload, type(telemetry))
            return self._open is not None and await self._told(self._open.link, payload)
        except (Malformed, Down) as exc:
            _log.warning("telemetry was not taken: %s", exc)
            return False

    async def _told(self, link: Link, payload: bytes) -> bool:
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
        asking = Asking(self._open.link, said)
        patience_s = ends - anyio.current_time()
        with anyio.move_on_after(patience_s):
            try:
                decision = await asking.answer()
            except Down as down:
                return said.refused("unavailable", str(down))
            if decision.allowed:
                self._stops.allowed()
            return decision
        if asking.pending is not None:
            return asking.pending
        silence = f"no answer to this proposal came within {round(patience_s, 1):g} s"
        return said.refused(
            "unavailable", f"{silence} from {asking.where}; look at `safetyd status`"
        )


async def _background(link: Link, outbox: Outbox) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.keep)
        await outbox.run()
        tasks.cancel_scope.cancel()


def _fits(decision: Decision, ends: float) -> bool:
    if decision.cause != "rate_limit" or decision.retry_after_s is None:
        return False
    return anyio.current_time() + decision.retry_after_s < ends


def _outcome(proposal: str | None, ok: bool, fields: OutcomeFields) -> bytes | None:  # noqa: FBT001
    unknown = fields.keys() - OutcomeFields.__annotations__.keys()
    if unknown:
        raise TypeError(f"an outcome has no field {', '.join(map(repr, sorted(unknown)))}")
    said: Mapping[str, object] = {"type": "outcome", "id": proposal, "ok": ok, **fields}
    if isinstance(error := fields.get("error"), str):
        said = {**said, "error": printable(error)}
    try:
        payload = encode(said)
        check(payload, Outcome)
    except Malformed as exc:
        _log.warning("an outcome is malformed: %s", exc)
        return None
    return payload
