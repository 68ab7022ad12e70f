"""What people's answers add up to: shown with its evidence, and true once it is pasted."""

import tomllib

import msgspec
import pytest

from safetyd.core.engine import Engine
from safetyd.core.events import Decided
from safetyd.core.guards.rules import CustomRule, RulesConfig
from safetyd.core.policy import Policy
from safetyd.core.suggestions import ENOUGH, MAX_KINDS, Suggestion
from safetyd.core.verdict import Severity
from tests.core.asked import Queue
from tests.core.remedied import paused
from tests.play import ask, propose

ODD = 'dance "\\ \x7f ü'


def answered(
    queue: Queue,
    times: int,
    answer: str = "approved",
    type: str = "push",  # noqa: A002
    agent: str = "code",
    **fields: object,
) -> None:
    for n in range(times):
        t = float(queue.engine.seq)
        said = {"text": f"{type} {queue.engine.seq} {n}", **fields}
        asked = queue.proposes(propose(t, agent, f"q{queue.engine.seq}", type, **said))  # type: ignore[arg-type]
        queue.answers(t + 1, asked.request_id, answer)  # type: ignore[arg-type]


def suggested(queue: Queue) -> list[Suggestion]:
    return queue.engine.history.suggestions()


def pasted(toml: str) -> Policy:
    (rule,) = tomllib.loads(toml)["rules"]["custom"]
    return Policy(rules=RulesConfig(custom=(msgspec.convert(rule, CustomRule),)))


@pytest.mark.req("S3.56")
@pytest.mark.req("S3.61")
@pytest.mark.parametrize("project", [None, "web"])
@pytest.mark.parametrize("type", ["push", ODD])
def test_what_is_always_approved_might_be_allowed(type: str, project: str | None) -> None:  # noqa: A002
    queue = Queue()
    answered(queue, ENOUGH - 1, type=type, project=project)
    assert suggested(queue) == []
    answered(queue, 1, type=type, project=project)

    (found,) = suggested(queue)

    assert (found.then, found.reason) == ("allow", "approved 5 times and never denied")
    assert found.answers.first_at is not None
    assert found.answers.last_at is not None
    assert found.answers.first_at < found.answers.last_at
    engine = Engine(pasted(found.toml))
    assert ask(engine, propose(0, type=type, project=project)).allowed
    assert not ask(engine, propose(0, "ops", type=type, project=project)).allowed


@pytest.mark.req("S3.61")
def test_what_is_always_denied_might_be_blocked() -> None:
    queue = Queue()
    answered(queue, ENOUGH, "denied", "deploy")

    (found,) = suggested(queue)

    assert (found.then, found.reason) == ("block", "denied 5 times and never approved")
    assert ask(Engine(pasted(found.toml)), propose(0, type="deploy")).decision is Severity.BLOCK


def test_people_who_do_not_agree_suggest_nothing() -> None:
    queue = Queue()
    answered(queue, 2 * ENOUGH)
    answered(queue, 1, "denied")
    answered(queue, ENOUGH, "denied", "deploy")
    answered(queue, 1, "approved", "deploy")

    assert suggested(queue) == []


@pytest.mark.req("S3.5")
@pytest.mark.parametrize("answer", ["approved", "denied"])
def test_nothing_is_suggested_about_speaking_to_people(answer: str) -> None:
    queue = Queue()
    answered(queue, ENOUGH, answer, "send_email")

    assert suggested(queue) == []


def test_nothing_is_suggested_that_would_not_help() -> None:
    queue = Queue()
    answered(queue, ENOUGH, type="modify_config", reversibility="irreversible")
    answered(queue, ENOUGH, type="deploy", confidence=0.1)

    assert suggested(queue) == []


def test_a_prohibited_type_is_never_suggested() -> None:
    queue = Queue(Policy(rules=RulesConfig(prohibited_means="require_confirmation")))
    answered(queue, ENOUGH, type="change_password")

    assert suggested(queue) == []


def test_a_rule_that_is_there_already_is_not_suggested_again() -> None:
    queue = Queue()
    answered(queue, ENOUGH)

    assert queue.engine.history.suggestions(["allow_code_push"]) == []


def test_only_the_first_answer_counts_and_pauses_do_not() -> None:
    queue = Queue()
    asked = queue.asks(0)
    for n in range(ENOUGH):
        queue.answers(n, asked.request_id)
    for n in range(ENOUGH):
        queue.happens(paused(100.0 + n, "anomaly"))
        request = next(queue.engine.approvals.pending())
        queue.answers(100 + n, request.id)

    (count,) = queue.engine.history._state.kinds.values()
    assert (count.type, count.approved) == ("push", 1)


def test_an_answer_to_what_nobody_knows_counts_for_nothing() -> None:
    queue = Queue()
    asked = queue.asks(0)
    queue.answers(1, asked.request_id)
    answer = next(e for e in queue.journal if type(e).__name__ == "Answered")

    queue.engine.history.observe(msgspec.structs.replace(answer, request_id="req_0"))

    assert next(iter(queue.engine.history._state.kinds.values())).approved == 1


def test_kinds_that_are_counted_are_bounded() -> None:
    queue = Queue()
    answered(queue, 1)
    kinds = queue.engine.history._state.kinds
    known = next(iter(kinds.values()))
    kinds |= {f"k{n}": known for n in range(MAX_KINDS)}

    answered(queue, 1, agent="ops")

    assert len(kinds) <= MAX_KINDS + 1
    assert [count.agent for count in kinds.values()][-1] == "ops"


def test_counts_are_rebuilt_from_the_journal_and_from_a_checkpoint() -> None:
    queue = Queue()
    answered(queue, 3)
    answered(queue, 2, "denied", "deploy")
    assert any(isinstance(event, Decided) for event in queue.journal)

    saved = queue.engine.history.save()()

    assert queue.replayed().history.save()() == saved
    assert Engine.restore(queue.engine.save()()).history.save()() == saved
