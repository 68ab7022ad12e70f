"""Agents that propose at a steady rate through any node, and ask again until they are answered."""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

import msgspec

from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import digest
from tests.journeys.agent_wire import AgentWire, Message
from tests.journeys.agents import KINDS, Fields, Heard, History

AGAIN_S: Final = 0.5  # after which an unanswered proposal is sent again
PAUSE_S: Final = 0.02  # before a proposal that nobody listened to is sent again
DEAF_S: Final = 1.5  # after which a silent node is left for another one
UNANSWERED_S: Final = 3.0  # the same for a node through which no answer comes
GIVES_UP_S: Final = 20.0
AT_MOST: Final = 32  # in flight

_read = msgspec.json.Decoder(Decision).decode


class Asked(msgspec.Struct):
    """A proposal without an answer from the journal."""

    fields: Fields
    first_t: float
    again_t: float


class SteadyAgent(ABC):
    """Sends `per_s` new proposals a second, unless too many are unanswered."""

    def __init__(self, name: str, urls: Sequence[str], seed: Path, per_s: float) -> None:
        self.name = name
        self.history = History()
        self.refused: list[Heard] = []  # answers that are in no journal
        self.given_up: list[str] = []
        self._urls = itertools.cycle(urls)
        self._seed = seed
        self._every_s = 1 / per_s
        self._under_way: dict[str, Asked] = {}
        self._numbers = itertools.count(1)
        self._answered_t = 0.0
        self._over = Event()
        self._thread = Thread(target=self._live, name=name, daemon=True)

    @abstractmethod
    def fields(self, number: int) -> Fields:
        """Return the content of a new proposal."""

    def learn(self, decision: Decision) -> None:  # noqa: B027 - few need to
        """Receive the first answer to a proposal."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _live(self) -> None:
        while not self._over.is_set():
            try:
                with AgentWire(next(self._urls), self._seed, greeting_s=DEAF_S) as wire:
                    self._talk(wire)
            except OSError:
                self._over.wait(PAUSE_S)  # it tries another node

    def _talk(self, wire: AgentWire) -> None:
        wire.subscribe(f"_INBOX.agent.{self.name}.*")
        wire.subscribe(f"safety.v1.decision.{self.name}.*")
        for asked in self._under_way.values():
            asked.again_t = 0.0
        due = self._answered_t = time.monotonic()
        while not self._over.is_set():
            now = time.monotonic()
            if now >= due:
                due = max(due + self._every_s, now)
                self._propose(wire, now)
            self._repeat(wire, now)
            for message in wire.hear(max(0.0, min(due - time.monotonic(), PAUSE_S))):
                self._note(message)
            self._check(wire)

    def _propose(self, wire: AgentWire, now: float) -> None:
        if len(self._under_way) >= AT_MOST:
            return
        number = next(self._numbers)
        id_, fields = f"{self.name}-{number}", self.fields(number)
        self._under_way[id_] = Asked(fields, now, now + AGAIN_S)
        self.history.sent[id_] = now
        self.history.digests[id_] = digest(self.name, fields)
        self._send(wire, id_, fields)

    def _repeat(self, wire: AgentWire, now: float) -> None:
        for id_, asked in list(self._under_way.items()):
            if now - asked.first_t > GIVES_UP_S:
                del self._under_way[id_]
                self.given_up.append(id_)
            elif now >= asked.again_t:
                asked.again_t = now + AGAIN_S
                self._send(wire, id_, asked.fields)

    def _send(self, wire: AgentWire, id_: str, fields: Fields) -> None:
        payload = msgspec.json.encode({**fields, "id": id_})
        wire.publish(f"safety.v1.propose.{self.name}", payload, f"_INBOX.agent.{self.name}.{id_}")

    def _note(self, message: Message) -> None:
        id_ = message.subject.rpartition(".")[2]
        asked = self._under_way.get(id_)
        if not message.payload:  # no daemon is listening for proposals
            if asked is not None:
                asked.again_t = time.monotonic() + PAUSE_S
            return
        replied = message.subject.startswith("_INBOX")
        heard = Heard(id_, _read(message.payload), time.monotonic(), datetime.now(UTC), replied)
        self._answered_t = heard.t
        self.history.add(heard)
        if heard.decision.seq is None:
            self.refused.append(heard)
        elif asked is not None:
            del self._under_way[id_]
            self.learn(heard.decision)

    def _check(self, wire: AgentWire) -> None:
        """Leave a node that is silent, or through which no answer comes."""
        now = time.monotonic()
        if now - wire.heard_t > DEAF_S:
            raise TimeoutError("the node is silent")
        if self._under_way and now - self._answered_t > UNANSWERED_S:
            raise TimeoutError("no answer came through the node")
        if now - wire.heard_t > DEAF_S / 3:
            wire.ping()


class Reader(SteadyAgent):
    """Proposes actions that are allowed or blocked whatever happened before."""

    def fields(self, number: int) -> Fields:
        return KINDS[number % len(KINDS)]


class Spender(SteadyAgent):
    """Spends the budget of one chain, then of the next."""

    COST_USD: Final = 0.01

    def __init__(self, name: str, urls: Sequence[str], seed: Path, per_s: float) -> None:
        super().__init__(name, urls, seed, per_s)
        self._chain = 1

    def fields(self, number: int) -> Fields:
        cost = {"cost_usd": self.COST_USD, "chain": f"{self.name}-{self._chain}"}
        return {"type": "model_call", "text": f"think {number}", **cost}

    def learn(self, decision: Decision) -> None:
        if decision.cause == "budget":
            self._chain += 1


class Limited(SteadyAgent):
    """Proposes more than its rate limit allows."""

    def fields(self, number: int) -> Fields:
        return {"type": "read_file", "text": f"page {number}"}


@contextmanager
def at_work(*agents: SteadyAgent) -> Iterator[None]:
    """Let agents propose."""
    with ExitStack() as stack:
        for agent in agents:
            stack.enter_context(agent)
        yield
