"""Agents that propose without pause and record everything they send and receive."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Final, NamedTuple

import msgspec

from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import digest
from tests.conftest import UNLIMITED
from tests.journeys.agent_wire import AgentWire, Message, Refused

UNBOUNDED: Final = UNLIMITED
PATIENCE_S: Final = 60.0  # with what never comes
LOST_S: Final = 0.5
PAUSE_S: Final = 0.01

_read = msgspec.json.Decoder(Decision).decode

Fields = dict[str, object]

# Allowed and blocked proposals, so that both are in flight when a fault happens.
KINDS: Final[Sequence[Fields]] = (
    {"type": "read_file", "text": "notes.txt"},
    {"type": "read_file", "text": "plans.txt"},
    {"type": "run_shell", "text": "rm -rf /"},
)


class Heard(NamedTuple):
    """A received decision, with its proposal, its time and the subject it came on."""

    id: str
    decision: Decision
    t: float
    at: datetime
    replied: bool

    @property
    def age(self) -> timedelta:
        assert self.decision.at is not None
        return self.at - self.decision.at


class History:
    """Everything that a crowd of agents sent and received, in order for each agent."""

    def __init__(self) -> None:
        self._news = Condition()
        self._heard: list[Heard] = []
        self.sent: dict[str, float] = {}
        self.digests: dict[str, str] = {}

    @property
    def heard(self) -> list[Heard]:
        with self._news:
            return self._heard.copy()

    @property
    def allows(self) -> list[Heard]:
        return [heard for heard in self.heard if heard.decision.allowed]

    def add(self, heard: Heard) -> None:
        with self._news:
            self._heard.append(heard)
            self._news.notify_all()

    def until(self, wanted: Callable[[Heard], object]) -> Heard:
        """Return the first decision from now on that matches."""
        end, seen = time.monotonic() + PATIENCE_S, len(self.heard)
        with self._news:
            while True:
                for heard in self._heard[seen:]:
                    if wanted(heard):
                        return heard
                seen = len(self._heard)
                if not self._news.wait(end - time.monotonic()):
                    last = self._heard[-1] if self._heard else None
                    raise AssertionError(f"not heard within {PATIENCE_S} s; the last was {last}")

    def until_allowed(self) -> Heard:
        """Return the next `allow` for a proposal sent from now on.

        An earlier agent of the same name may have proposed something that is only answered now.
        """
        now = time.monotonic()
        return self.until(lambda h: h.decision.allowed and self.sent.get(h.id, now) > now)


class Agent:
    """Keeps some proposals in flight, and reconnects when its connection breaks."""

    def __init__(self, name: str, url: str, history: History, seed: Path | None = None) -> None:
        self.name = name
        self.in_flight = 8
        self.asks_again = False  # in flight when a connection broke
        self.connected = Event()
        self.connections = 0
        self.refused = Event()
        self._url = url
        self._seed = seed
        self._history = history
        self._over = Event()
        self._numbers = itertools.count(1)
        self._under_way: dict[str, tuple[Fields, float]] = {}
        self._thread = Thread(target=self._live, name=name, daemon=True)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _live(self) -> None:
        while not self._over.wait(PAUSE_S):
            try:
                with AgentWire(self._url, self._seed) as wire:
                    self.connected.set()
                    self.connections += 1
                    self._talk(wire)
            except Refused:
                self.refused.set()
            except OSError:
                pass  # it tries again
            self.connected.clear()

    def _talk(self, wire: AgentWire) -> None:
        wire.subscribe(f"_INBOX.agent.{self.name}.*")
        wire.subscribe(f"safety.v1.decision.{self.name}.*")
        lost, self._under_way = self._under_way, {}
        for id_, (fields, _) in lost.items() if self.asks_again else ():
            self._ask(wire, id_, fields)
        while not self._over.is_set():
            self._fill(wire)
            for message in wire.hear(LOST_S):
                self._note(message)

    def _fill(self, wire: AgentWire) -> None:
        long_ago = time.monotonic() - LOST_S
        for id_ in [i for i, (_, sent) in self._under_way.items() if sent < long_ago]:
            del self._under_way[id_]
        while len(self._under_way) < self.in_flight:
            number = next(self._numbers)
            self._ask(wire, f"{self.name}-{number}", KINDS[number % len(KINDS)])

    def _ask(self, wire: AgentWire, id_: str, fields: Fields) -> None:
        now = time.monotonic()
        self._under_way[id_] = fields, now
        self._history.sent[id_] = now
        self._history.digests[id_] = digest(self.name, fields)
        payload = msgspec.json.encode({**fields, "id": id_})
        inbox = f"_INBOX.agent.{self.name}.{id_}"
        wire.publish(f"safety.v1.propose.{self.name}", payload, inbox)

    def _note(self, message: Message) -> None:
        id_ = message.subject.rpartition(".")[2]
        if not message.payload:  # no daemon is listening for proposals
            self._under_way.pop(id_, None)
            self._over.wait(PAUSE_S)
            return
        replied = message.subject.startswith("_INBOX")
        heard = Heard(id_, _read(message.payload), time.monotonic(), datetime.now(UTC), replied)
        self._history.add(heard)
        if replied:
            self._under_way.pop(id_, None)
            if heard.decision.seq is None:
                self._over.wait(PAUSE_S)


@contextmanager
def crowd(url: str, *names: str, asks_again: bool = False) -> Iterator[History]:
    """Let anonymous agents with these names propose, and yield what they sent and received."""
    history = History()
    with ExitStack() as stack:
        for name in names:
            agent = Agent(name, url, history)
            agent.asks_again = asks_again
            stack.enter_context(agent.at_work())
        yield history


def until(claim: Callable[[], object]) -> None:
    """Return once the condition holds."""
    begun = time.monotonic()
    while not claim():
        assert time.monotonic() - begun < PATIENCE_S, f"not true within {PATIENCE_S} s"
        time.sleep(0.01)
