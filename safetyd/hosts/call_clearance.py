"""Asks safetyd whether a tool call may run now, and ensures that an approval runs only one call.

The proposal itself does not wait for the operator, because the approval of a waiting proposal is
lost if the host has left. Instead, the request is watched. Once the request is approved, a new
proposal uses the approval, and the approval is claimed. If the call then does not run, because the
client has cancelled it or the claim got no answer, the next identical call repeats the claim.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
import msgspec

from safetyd.client import Approved, Decision, Denied, PermissionResult, Queued, Safety, Timeout
from safetyd.client.draft import new_id
from safetyd.client.guard_scope import unclaimed
from safetyd.core.messages.proposal import canonical
from safetyd.core.messages.verdict import BLOCK, Cause

MAX_REMEMBERED: Final = 1024

Fields = Mapping[str, Any]


class Unused(Exception):
    """The client cancelled the call before it ran."""


class CallClearance:
    """Decides about calls of one host. `wait_s` is how long a call waits for an operator.

    It does not wait if nobody can be notified in that time, unless `wait_if_unreachable` is set.
    """

    def __init__(self, safety: Safety, wait_s: float, *, wait_if_unreachable: bool = False) -> None:
        self._safety = safety
        self._wait_s = wait_s
        self._wait_if_unreachable = wait_if_unreachable
        self._claimant = new_id()
        self._waits: set[anyio.CancelScope] = set()
        # Identical calls are decided one after the other.
        self._locks: WeakValueDictionary[bytes, anyio.Lock] = WeakValueDictionary()
        # Requests whose approval was used, and approvals that were used by a call that did not run.
        self._used: OrderedDict[str, None] = OrderedDict()
        self._unrun: OrderedDict[bytes, Decision] = OrderedDict()

    async def decide(self, fields: Fields, cancelled: anyio.CancelScope) -> Decision:
        """Return a decision. An allowed call is already claimed, so the caller must run it at once.

        Raises `Unused` if `cancelled` is cancelled before the call may run.
        """
        key = canonical(fields)
        lock = self._locks.setdefault(key, anyio.Lock())
        async with lock:
            decision = await self._taken_over(key, cancelled)
            if decision is None:
                decision = await self._proposed(key, fields, cancelled)
        if decision.status != "pending" or self._wait_s <= 0:
            return decision
        if not (self._wait_if_unreachable or decision.answerable_within(self._wait_s)):
            return decision
        match await self._waited(decision, cancelled):
            case Approved():
                async with lock:
                    return await self._approved(key, fields, decision, cancelled)
            case Denied(reason=reason, cause=cause):
                return _ended(decision, cause, reason)
            case Timeout():
                return _ended(decision, "expired_no_response", "nobody answered in time")
            case Queued():
                return decision

    def stop_waiting(self) -> None:
        """End all waits for operators, and let no further call wait."""
        self._wait_s = 0.0
        for wait in self._waits:
            wait.cancel()

    async def _taken_over(self, key: bytes, cancelled: anyio.CancelScope) -> Decision | None:
        """Return the decision on an earlier identical call that did not run, if any."""
        earlier = self._unrun.pop(key, None)
        if earlier is None:
            return None
        decision = await self._claimed(key, earlier, cancelled)
        return decision if decision.allowed or decision.cause == "unavailable" else None

    async def _proposed(self, key: bytes, fields: Fields, cancelled: anyio.CancelScope) -> Decision:
        given = {name: value for name, value in fields.items() if name != "type"}
        decision = await self._safety.propose(fields["type"], **given)
        if not decision.allowed:
            return decision
        if decision.request_id:
            _remember(self._used, decision.request_id, None)
        return await self._claimed(key, decision, cancelled)

    async def _waited(self, pending: Decision, cancelled: anyio.CancelScope) -> PermissionResult:
        """Return the result of a request, or `Queued` if the wait ends first."""
        request_id = pending.request_id or ""
        result: PermissionResult = Queued(request_id=request_id)
        with cancelled, anyio.CancelScope() as wait:
            self._waits.add(wait)
            try:
                result = await self._safety.answered(
                    request_id, timeout_s=self._wait_s, proposal=pending.id
                )
            finally:
                self._waits.discard(wait)
        if cancelled.cancel_called:
            raise Unused
        return result

    async def _approved(
        self, key: bytes, fields: Fields, pending: Decision, cancelled: anyio.CancelScope
    ) -> Decision:
        """Use the approval, unless another identical call has used it in the meantime."""
        earlier = await self._taken_over(key, cancelled)
        if earlier is not None:
            return earlier
        if pending.request_id in self._used:
            why = "the same call was made twice, and the approval covered the other one"
            return _ended(pending, "superseded", why)
        return await self._proposed(key, fields, cancelled)

    async def _claimed(
        self, key: bytes, decision: Decision, cancelled: anyio.CancelScope
    ) -> Decision:
        """Return the decision, or a block if its approval cannot be claimed."""
        if decision.cause != "human_approved":
            if cancelled.cancel_called:
                await self._safety.report(decision.id, ok=True, details={"interrupted": True})
                raise Unused
            return decision
        claim = await self._safety.claim(decision, claimant=self._claimant)
        if cancelled.cancel_called or claim.cause == "unavailable":
            _remember(self._unrun, key, decision)
        if cancelled.cancel_called:
            raise Unused
        return decision if claim.granted else unclaimed(decision, claim)


def _ended(pending: Decision, cause: Cause, reason: str) -> Decision:
    return msgspec.structs.replace(
        pending,
        decision=BLOCK,
        status="final",
        cause=cause,
        reason=reason,
        triggered_rules=(cause,),
        expires_at=None,
    )


def _remember(memory: OrderedDict[Any, Any], key: object, value: object) -> None:
    memory[key] = value
    while len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
