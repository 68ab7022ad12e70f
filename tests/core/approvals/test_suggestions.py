"""Suggestions from past answers: shown with evidence, and effective when pasted."""

import tomllib

import msgspec
import pytest

from safetyd.core.approvals.suggestions import ENOUGH, MAX_KINDS, TEXT_CHARS, Suggestion
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.guards.rules import CustomRule, RulesConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.core.engine.remedy_story import paused
from tests.story import ask, propose

ODD = 'dance "\\ \x7f ü'


def answered(
    queue: QueueStory,
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
        queue.answers(t + 1, asked.request_id, answer, waits=True)  # type: ignore[arg-type]


def suggested(queue: QueueStory) -> list[Suggestion]:
    return queue.engine.past_answers.suggestions()


def pasted(toml: str) -> Policy:
    (rule,) = tomllib.loads(toml)["rules"]["custom"]
    return Policy(rules=RulesConfig(custom=(msgspec.convert(rule, CustomRule),)))


@pytest.mark.req("S3.56")
@pytest.mark.req("S3.61")
@pytest.mark.parametrize("project", [None, "web"])
@pytest.mark.parametrize("type", ["push", ODD])
def test_what_is_always_approved_might_be_allowed(type: str, project: str | None) -> None:  # noqa: A002
    queue = QueueStory()
    said = {"type": type, "project": project, "text": 'make "test" ü'}
    answered(queue, ENOUGH - 1, **said)  # type: ignore[arg-type]
    assert suggested(queue) == []
    answered(queue, 1, **said)  # type: ignore[arg-type]

    (found,) = suggested(queue)

    assert (found.then, found.reason) == ("allow", "approved 5 times and never denied")
    assert found.answers.first_at is not None
    assert found.answers.last_at is not None
    assert found.answers.first_at < found.answers.last_at
    engine = Engine(pasted(found.toml))
    assert ask(engine, propose(0, **said, session="s", rationale="why")).allowed  # type: ignore[arg-type]
    others: list[dict[str, object]] = [
        {"agent": "ops"},
        {"text": 'make "test" ü; rm x'},
        {"text": 'MAKE "test" ü'},
        {"text": ""},
        {"paths": ("x",)},
        {"remote": "elsewhere"},
        {"target": Target(url="https://evil.example")},
        {"cost_usd": 1.0},
    ]
    for number, other in enumerate(others):
        again = propose(0, id=f"o{number}", **{**said, **other})  # type: ignore[arg-type]
        assert not ask(engine, again).allowed, other


def test_what_was_approved_in_other_words_each_time_suggests_nothing() -> None:
    queue = QueueStory()
    answered(queue, 2 * ENOUGH)
    answered(queue, ENOUGH, text="git push", remote="origin")
    answered(queue, ENOUGH, text="x" * (TEXT_CHARS + 1))

    assert suggested(queue) == []


@pytest.mark.req("S3.61")
def test_what_is_always_denied_might_be_blocked() -> None:
    queue = QueueStory()
    answered(queue, ENOUGH, "denied", "deploy")

    (found,) = suggested(queue)

    assert (found.then, found.reason) == ("block", "denied 5 times and never approved")
    assert ask(Engine(pasted(found.toml)), propose(0, type="deploy")).decision is Severity.BLOCK


def test_different_answers_suggest_nothing() -> None:
    queue = QueueStory()
    answered(queue, 2 * ENOUGH, text="git push")
    answered(queue, 1, "denied", text="git push")
    answered(queue, ENOUGH, "denied", "deploy")
    answered(queue, 1, "approved", "deploy")

    assert suggested(queue) == []


@pytest.mark.req("S3.5")
@pytest.mark.parametrize("answer", ["approved", "denied"])
def test_nothing_is_suggested_about_contacting_people(answer: str) -> None:
    queue = QueueStory()
    answered(queue, ENOUGH, answer, "send_email")

    assert suggested(queue) == []


def test_nothing_is_suggested_that_would_not_help() -> None:
    queue = QueueStory()
    answered(queue, ENOUGH, type="modify_config", text="x", reversibility="irreversible")
    answered(queue, ENOUGH, type="deploy", text="x", confidence=0.1)

    assert suggested(queue) == []


def test_a_prohibited_type_is_never_suggested() -> None:
    queue = QueueStory(Policy(rules=RulesConfig(prohibited_means="require_confirmation")))
    answered(queue, ENOUGH, type="change_password", text="x")

    assert suggested(queue) == []


def test_a_rule_that_is_there_already_is_not_suggested_again() -> None:
    queue = QueueStory()
    answered(queue, ENOUGH, text="git push")
    (found,) = suggested(queue)

    assert found.name.startswith("allow_code_push_")
    assert queue.engine.past_answers.suggestions([found.name]) == []


def test_only_the_first_answer_counts_and_pauses_do_not() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    for n in range(ENOUGH):
        queue.answers(n, asked.request_id)
    for n in range(ENOUGH):
        queue.happens(paused(100.0 + n, "anomaly"))
        request = next(queue.engine.approvals.pending())
        queue.person_answers(100 + n, request)

    kind, exact = queue.engine.past_answers._state.kinds.values()
    assert (kind.type, kind.text, kind.approved) == ("push", None, 1)
    assert (exact.type, exact.text, exact.approved) == ("push", "git push origin main", 1)


def test_an_answer_to_an_unknown_request_does_not_count() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(1, asked.request_id)
    answer = next(e for e in queue.journal if type(e).__name__ == "Answered")

    queue.engine.past_answers.observe(msgspec.structs.replace(answer, request_id="req_0"))

    assert next(iter(queue.engine.past_answers._state.kinds.values())).approved == 1


def test_kinds_that_are_counted_are_bounded() -> None:
    queue = QueueStory()
    answered(queue, 1)
    kinds = queue.engine.past_answers._state.kinds
    known = next(iter(kinds.values()))
    kinds |= {f"k{n}": known for n in range(MAX_KINDS)}

    answered(queue, 1, agent="ops")

    assert len(kinds) <= MAX_KINDS + 2, "a kind and its text"
    assert [count.agent for count in kinds.values()][-1] == "ops"


def test_counts_are_rebuilt_from_the_journal_and_from_a_checkpoint() -> None:
    queue = QueueStory()
    answered(queue, 3)
    answered(queue, 2, "denied", "deploy")
    assert any(isinstance(event, Decided) for event in queue.journal)

    saved = queue.engine.past_answers.save()()

    assert queue.replayed().past_answers.save()() == saved
    assert Engine.restore(queue.engine.save()()).past_answers.save()() == saved
