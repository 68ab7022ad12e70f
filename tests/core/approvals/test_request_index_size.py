"""A hundred thousand requests of 1 KiB: operations are fast, and they fit into 400 MiB."""

import gc
import random
import threading
import time
import tracemalloc
from typing import Final

import msgspec
import pytest

from safetyd.agents.permissions import PermissionAsk, asked_about
from safetyd.core.approvals.request import ApprovalsConfig, Request, request_id
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.policy import Policy
from safetyd.operators.contract.request_contract import HistoryQuestion, PendingQuestion
from safetyd.operators.views.request_view import history, pending, request
from tests.core.approvals.queue_story import push
from tests.cost import ratio
from tests.story import at, propose, tick
from tests.tracing import untraced

pytestmark = pytest.mark.large

MANY: Final = 100_000
WALKS: Final = 10  # over all requests: what one question may cost
WORDS: Final = [f"{a}{b}" for a in ("push", "move", "read", "send") for b in range(100)]
MOMENT: Final = Moment(at(1), 1.0)
ROOMY: Final = Policy(approvals=ApprovalsConfig(max_pending_per_agent=1_000_000))


def text(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=200))[:1024]


def alike(template: Request, number: int) -> Request:
    """Return one more request, of another agent and about something else."""
    agent, id_ = f"a{number % 1000}", f"p{number}"
    proposal = msgspec.structs.replace(template.asked.proposal, id=id_, text=text(number))
    asked = msgspec.structs.replace(
        template.asked, seq=number, agent=agent, proposal=proposal, digest=f"sha256:{number:064x}"
    )
    name = request_id(agent, id_, number)
    return msgspec.structs.replace(template, id=name, asked=asked, action=name.encode())


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine(ROOMY)
    engine.decide(push(0))
    (template,) = engine.approvals.pending()
    with untraced():
        for number in range(1, MANY):
            engine.approvals.put(alike(template, number))
    assert engine.approvals.pending_count() == MANY
    return engine


def last(engine: Engine, count: int) -> Request:
    return list(engine.approvals.pending())[-count]


@pytest.mark.parametrize(
    "ask",
    [
        lambda engine: pending(engine, MOMENT, PendingQuestion()),
        lambda engine: pending(engine, MOMENT, PendingQuestion(after=last(engine, 500).id)),
        lambda engine: pending(engine, MOMENT, PendingQuestion(agent="a1")),
        lambda engine: request(engine, MOMENT, last(engine, 1).id),
        lambda engine: request(engine, MOMENT, last(engine, 1).id[:10]),
        lambda engine: history(engine, MOMENT, HistoryQuestion()),
        lambda engine: asked_about(engine, "a1", PermissionAsk(open=True)),
        lambda engine: engine.handle(tick(1)),
        lambda engine: engine.decide(push(1, "new", text="git push other", dry_run=True)),
        lambda engine: engine.approvals.save(),
    ],
    ids=["list", "after", "agent", "show", "prefix", "history", "own", "tick", "decide", "save"],
)
def test_operations_on_many_requests_are_fast(engine: Engine, ask) -> None:
    assert ratio(lambda: ask(engine), lambda: list(engine.approvals.pending()), rounds=5) < WALKS


def test_decisions_go_on_while_a_checkpoint_of_many_requests_is_written(engine: Engine) -> None:
    writing = threading.Thread(target=engine.approvals.save())
    number, gaps, before = 0, [0.0], time.perf_counter()

    with untraced():
        writing.start()
        while writing.is_alive():
            number += 1
            engine.decide(propose(2, "reader", f"r{number}", dry_run=True))
            now = time.perf_counter()
            gaps.append(now - before)
            before = now

    # A neighbour on the machine may take some moments; the encoding itself must take none.
    assert number > 100
    assert sorted(gaps)[-3] < sum(gaps) / 5


def test_many_requests_come_back_from_a_checkpoint(engine: Engine) -> None:
    restored = Engine(ROOMY)

    restored.approvals.load(engine.approvals.save()())

    assert restored.approvals.pending_count() == MANY
    assert last(restored, 1) == last(engine, 1)


def test_a_request_of_one_kib_takes_little_more_than_four() -> None:
    engine, count = Engine(ROOMY), 2000
    tracemalloc.start()
    try:
        begun, _ = tracemalloc.get_traced_memory()
        with untraced():
            for n in range(count):
                asked = propose(n, f"a{n % 10}", f"p{n}", "push", digest=f"d{n}", text=text(n))
                engine.decide(asked)
        gc.collect()  # or it counts what the interpreter keeps for its next calls
        ended, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert engine.approvals.pending_count() == count
    assert (ended - begun) / count < 4352
