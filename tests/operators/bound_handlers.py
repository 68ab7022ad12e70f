"""Handlers of tests: those that a room binds, one by one, and those of all rooms together."""

from pathlib import Path
from typing import Any

from safetyd.clock import Clock
from safetyd.extras.file_history.service.histories import Histories
from safetyd.extras.file_history.service.history_service import HistoryService
from safetyd.journal.mailbox import Ask, Mailbox, Plan
from safetyd.operators.contract.backup_contract import CheckpointCommand
from safetyd.operators.contract.cluster_contract import ReplicasAnswer, ReplicasQuestion
from safetyd.operators.contract.question import Verb
from safetyd.operators.declarations import read_call
from safetyd.operators.handlers import Asker, Handlers, Search, Work, at_once
from safetyd.operators.replies import Refusal, Reply, refused
from safetyd.operators.reviews import ReviewCommand


class TakenCalls:
    """A runner that keeps what it should do."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def inquire(self, _asker: Asker, ask: Ask) -> None:
        self.taken.append(ask)

    def carry_out(self, _asker: Asker, plan: Plan[Reply]) -> None:
        self.taken.append(plan)

    def work(self, _asker: Asker, work: Work) -> None:
        self.taken.append(work)

    def look_up(self, _asker: Asker, work: Work) -> None:
        self.taken.append(work)

    def search(self, _asker: Asker, search: Search) -> None:
        self.taken.append(search)


def taken(handlers: Handlers, verb: Verb, name: str, by: str, fields: dict[str, object]) -> Any:
    """Return the plan of a command, or what a question asks of the engine."""
    call, calls = read_call(verb, {"command": name, **fields}), TakenCalls()
    handlers[type(call)](calls, Asker(by, _unheard), call)
    (one,) = calls.taken
    return one


def read_review(fields: dict[str, object]) -> ReviewCommand:
    call = read_call("review", fields)
    assert isinstance(call, ReviewCommand)
    return call


def _unheard(_answer: object) -> None:
    raise AssertionError("the engine answers")


def without_projects(directory: Path, mailbox: Mailbox, clock: Clock) -> Handlers:
    """Return handlers of a daemon that has no file history, no checkpoints and no cluster."""
    history = HistoryService(Histories(directory, {}), mailbox, clock)
    without = [
        at_once(CheckpointCommand, _no_checkpoint),
        at_once(ReplicasQuestion, _no_cluster),
    ]
    return {**history.handlers, **dict(without)}


def _no_cluster(_by: str, _question: ReplicasQuestion) -> ReplicasAnswer:
    return ReplicasAnswer(ok=True, nodes=(), streams=())


def _no_checkpoint(_by: str, _command: CheckpointCommand) -> Refusal:
    return refused("unavailable", "no checkpoint is written")
