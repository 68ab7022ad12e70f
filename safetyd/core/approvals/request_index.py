"""The index of requests by action, proposal, agent and deadline."""

import heapq
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from typing import Final

import msgspec

from safetyd.core.approvals.request import Request, size_of

MAX_CLOSED: Final = 1_000  # number of remembered closed requests; the audit files contain all
SHORTEST: Final = 8  # minimum length of the prefix of a request id
PREFIX: Final = "req_"
WHOLE: Final = len(PREFIX) + 12
PART: Final = 500  # number of requests in one compressed part


class SavedRequest(msgspec.Struct, frozen=True):
    """Saved requests, in compressed parts. Small parts hardly delay decisions."""

    parts: list[bytes] = []
    closed: list[str] = []


# The format is JSON, because the context of a proposal is stored as received.
_decode = msgspec.json.Decoder(list[Request]).decode


class Waiting:
    """The ids and sizes of pending requests, oldest first."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.bytes = 0

    @property
    def count(self) -> int:
        return len(self.sizes)

    def add(self, id_: str, size: int) -> None:
        self.sizes[id_] = size
        self.bytes += size

    def remove(self, id_: str) -> None:
        self.bytes -= self.sizes.pop(id_)


class RequestIndex:
    """All requests. They are immutable, so `save` can encode them in another thread."""

    def __init__(self) -> None:
        self._requests: dict[str, Request] = {}  # oldest first
        self._closed: dict[str, None] = {}  # ids of closed requests, oldest first
        self._pending = Waiting()
        self._pending_of: dict[str, Waiting] = {}
        self.keyless = Waiting()  # pending requests of all anonymous agents together
        self._unused_of: dict[str, dict[str, None]] = {}
        self._of_action: dict[tuple[str, bytes], tuple[str, ...]] = {}
        self._of_proposal: dict[tuple[str, str], str] = {}
        # The last approved or denied request, by action.
        self.last_answers: dict[tuple[str, bytes], Request] = {}
        self._ends: list[tuple[datetime, str]] = []

    def find(self, request_id: str) -> Request | None:
        return self._requests.get(request_id)

    def named(self, prefix: str) -> list[Request]:
        """Return the requests whose ids start with `prefix` (at least eight characters)."""
        if exact := self._requests.get(prefix):
            return [exact]
        if not SHORTEST <= len(prefix) < WHOLE:
            return []
        return [request for id_, request in self._requests.items() if id_.startswith(prefix)]

    def with_proposal(self, id_: str) -> list[Request]:
        """Return the requests of proposals with this id, of any agent."""
        return [request for request in self._requests.values() if id_ in request.ids]

    def pending(self, agent: str | None = None) -> Iterator[Request]:
        """Yield pending requests, oldest first."""
        return (self._requests[id_] for id_ in self.waiting(agent).sizes)

    def pending_count(self, agent: str | None = None) -> int:
        return self.waiting(agent).count

    def most_insistent(self) -> tuple[str | None, int]:
        """Return the agent with the most pending requests, and their number."""
        counts = {agent: waiting.count for agent, waiting in self._pending_of.items()}
        most = max(counts, key=counts.__getitem__, default=None)
        return most, counts.get(most or "", 0)

    def waiting(self, agent: str | None = None) -> Waiting:
        """Return the pending requests of all agents or one, with their sizes."""
        return self._pending if agent is None else self._pending_of.get(agent, Waiting())

    def ending(self) -> list[Request]:
        """Return the requests and approvals that will expire."""
        ids = chain(self._pending.sizes, *self._unused_of.values())
        found = (self._requests[id_] for id_ in ids)
        return [request for request in found if request.ends is not None]

    def answered(self) -> list[Request]:
        """Return closed requests and approvals, the newest answer first."""
        ids = chain(self._closed, *self._unused_of.values())
        return sorted((self._requests[id_] for id_ in ids), key=_answered, reverse=True)

    def unused(self, agent: str) -> list[Request]:
        """Return an agent's unused approvals, oldest first."""
        found = (self._requests[id_] for id_ in self._unused_of.get(agent, ()))
        return sorted(found, key=lambda request: request.asked.seq)

    def of_proposal(self, agent: str, id_: str) -> Request | None:
        """Return the request that a proposal belongs to, if any."""
        request_id = self._of_proposal.get((agent, id_))
        return None if request_id is None else self._requests[request_id]

    def same_action(self, agent: str, action: bytes) -> Iterator[Request]:
        """Yield pending requests and unused approvals of an action, the newest first."""
        return (self._requests[id_] for id_ in reversed(self._of_action.get((agent, action), ())))

    def put(self, request: Request) -> None:
        """Add or replace a request."""
        before = self._requests.get(request.id)
        self._requests[request.id] = request
        if before is None:
            self._enter(request)
        elif before.state != request.state or before.unused != request.unused:
            self._move(before, request)
        if request.state in {"approved", "denied"}:
            last = self.last_answers.get((request.agent, request.action))
            if last is None or _answered(last) <= _answered(request):
                self.last_answers[request.agent, request.action] = request
        if request.ends is not None and (before is None or before.ends != request.ends):
            heapq.heappush(self._ends, (request.ends, request.id))

    def name_proposal(self, request: Request, id_: str) -> Request:
        """Assign a proposal to a request, and remove it from its previous one."""
        other = self.of_proposal(request.agent, id_)
        if other is not None and other.id != request.id:
            lost = (*other.lost, id_)
            self._requests[other.id] = msgspec.structs.replace(other, lost=lost)
        self._of_proposal[request.agent, id_] = request.id
        lost = tuple(other_id for other_id in request.lost if other_id != id_)
        return msgspec.structs.replace(request, lost=lost) if request.lost else request

    def due(self, at: datetime, most: int) -> tuple[list[str], list[str]]:
        """Remove and return expired requests and expired approvals, the earliest first."""
        pending, unused = list[str](), list[str]()
        while self._ends and self._ends[0][0] <= at and len(pending) + len(unused) < most:
            ends, id_ = heapq.heappop(self._ends)
            request = self._requests.get(id_)
            if request is None or request.ends != ends:
                continue  # it has ended, or its deadline has changed
            (pending if request.pending else unused).append(id_)
        return pending, unused

    def save(self) -> Callable[[], bytes]:
        """Freeze the state. The returned function encodes it."""
        requests, closed = list(self._requests.values()), list(self._closed)

        def encoded() -> bytes:
            begins = range(0, len(requests), PART)
            parts = [_encode_part(requests[n : n + PART]) for n in begins]
            return msgspec.msgpack.encode(SavedRequest(parts, closed))

        return encoded

    def load(self, saved: bytes) -> None:
        """Load the state that `save` encoded."""
        found = msgspec.msgpack.decode(saved, type=SavedRequest)
        for part in found.parts:
            for request in _decode(zlib.decompress(part)):
                self.put(request)
        self._closed = dict.fromkeys(found.closed)

    def _enter(self, request: Request) -> None:
        for id_ in request.ids:
            self._of_proposal[request.agent, id_] = request.id
        if request.pending:
            self._wait(request)
        elif request.unused:
            _add(self._unused_of, request)
        if request.pending or request.unused:
            key = request.agent, request.action
            self._of_action[key] = (*self._of_action.get(key, ()), request.id)

    def _move(self, before: Request, request: Request) -> None:
        if before.pending:
            self._wait_no_longer(before)
        else:
            _remove(self._unused_of, request)
        if request.unused:
            _add(self._unused_of, request)
        else:
            self._close(request)

    def _wait(self, request: Request) -> None:
        size = size_of(request.asked.proposal)
        self._pending.add(request.id, size)
        self._pending_of.setdefault(request.agent, Waiting()).add(request.id, size)
        if request.asked.keyless:
            self.keyless.add(request.id, size)

    def _wait_no_longer(self, request: Request) -> None:
        self._pending.remove(request.id)
        mine = self._pending_of[request.agent]
        mine.remove(request.id)
        if not mine.count:
            del self._pending_of[request.agent]
        if request.asked.keyless:
            self.keyless.remove(request.id)

    def _close(self, request: Request) -> None:
        self._leave(request)
        self._closed[request.id] = None
        if len(self._closed) > MAX_CLOSED:
            self._forget(next(iter(self._closed)))

    def _leave(self, request: Request) -> None:
        """Remove a closed request from its action, so that the action can be requested again."""
        key = request.agent, request.action
        rest = tuple(id_ for id_ in self._of_action[key] if id_ != request.id)
        if rest:
            self._of_action[key] = rest
        else:
            del self._of_action[key]

    def _forget(self, id_: str) -> None:
        del self._closed[id_]
        request = self._requests.pop(id_)
        last = self.last_answers.get((request.agent, request.action))
        if last is not None and last.id == id_:
            del self.last_answers[request.agent, request.action]
        for known in request.ids:
            self._of_proposal.pop((request.agent, known), None)


def _encode_part(requests: list[Request]) -> bytes:
    return zlib.compress(msgspec.json.encode(requests), 1)


def _answered(request: Request) -> tuple[datetime, int]:
    return request.answer.at if request.answer else request.asked.at, request.asked.seq


def _add(ids: dict[str, dict[str, None]], request: Request) -> None:
    ids.setdefault(request.agent, {})[request.id] = None


def _remove(ids: dict[str, dict[str, None]], request: Request) -> None:
    mine = ids[request.agent]
    del mine[request.id]
    if not mine:
        del ids[request.agent]
