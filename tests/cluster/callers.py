"""Requests through any node, which are repeated until they are answered."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count, cycle
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Self

import msgspec

from tests.bus.peer import Peer, Unanswered
from tests.bus.peer import Refused as PeerRefused
from tests.journeys.agents import until
from tests.nats_cluster import NAMES, NatsCluster

Reply = dict[str, Any]

ANSWER_S: Final = 2.0
CLAIMANTS: Final = ("x", "y")


class Caller:
    """An agent or operator that asks one question after another."""

    def __init__(self, cluster: NatsCluster, name: str, key: Path, inbox: str) -> None:
        self._name = name
        self._key = key
        self._inbox = inbox
        self._urls = cycle([cluster.default.url_of(node) for node in NAMES])

    def ask(self, verb: str, fields: Reply, over: Callable[[], bool] = bool) -> Reply:
        """Return the answer, or nothing if it is `over` before there is one."""
        answers: list[Reply] = []

        def answered() -> bool:
            with (
                suppress(Unanswered, PeerRefused, AssertionError, OSError),
                Peer(next(self._urls), self._key, self._inbox, greeting_s=ANSWER_S) as peer,
            ):
                payload = msgspec.json.encode(fields)
                subject = f"safety.v1.{verb}.{self._name}"
                found = peer.ask(subject, payload, ANSWER_S).fields
                if found.get("cause") != "unavailable":
                    answers.append(found)
            return bool(answers) or over()

        until(answered)
        return answers[0] if answers else {}

    def send(self, verb: str, fields: Reply) -> bool:
        """Send a request through one node, without waiting for an answer. Return whether it left.

        If nobody listens there, the node says so immediately.
        """
        with (
            suppress(PeerRefused, AssertionError, OSError),
            Peer(next(self._urls), self._key, self._inbox, greeting_s=ANSWER_S) as peer,
        ):
            peer.subscribe(f"{self._inbox}.sent")
            payload, subject = msgspec.json.encode(fields), f"safety.v1.{verb}.{self._name}"
            peer.publish(subject, payload, f"{self._inbox}.sent")
            return not peer.settle(ANSWER_S)
        return False


class Operator(Caller):
    """The local operator."""

    def __init__(self, cluster: NatsCluster) -> None:
        super().__init__(cluster, "local", cluster.operator, "_INBOX.op.local")

    def control(self, command: str, **fields: object) -> Reply:
        return self.ask("control", {"command": command, **fields})

    def approve(self, request: str, over: Callable[[], bool]) -> Reply:
        return self.ask("review", {"command": "approve", "ids": [request]}, over)


class ClaimingAgent:
    """Requests approvals, gets them, and lets two executors claim each of them."""

    def __init__(self, cluster: NatsCluster, key: Path) -> None:
        self._caller = Caller(cluster, "asker", key, "_INBOX.agent.asker")
        self._operator = Operator(cluster)
        self.granted: list[tuple[str, str]] = []  # request and claimant
        self._over = Event()
        self._thread = Thread(target=self._live, name="asker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _live(self) -> None:
        for number in count(1):
            if self._over.wait(0.1):
                return
            self._round(number)

    def _round(self, number: int) -> None:
        over = self._over.is_set
        push = {"type": "push", "text": f"git push origin {number}", "id": f"asker-{number}"}
        decision = self._caller.ask("propose", push, over)
        request = str(decision.get("request_id") or "")
        if not request or not self._operator.approve(request, over):
            return
        for claimant in CLAIMANTS:
            claim = {"id": push["id"], "digest": decision["digest"], "claimant": claimant}
            if self._caller.ask("claim", claim, over).get("granted"):
                self.granted.append((request, claimant))
