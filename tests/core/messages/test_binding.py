"""Which fields an approval is bound to, and that no other field matters."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Proposed
from safetyd.core.messages.binding import (
    BOUND,
    UNBOUND,
    action_key,
    as_shown,
    binding,
    permits,
    shown_paths,
)
from safetyd.core.messages.proposal import Observation, Proposal, Scores, Target, Tokens
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, propose

FIVE: Final = Scores(
    strategic_alignment=5,
    autonomy_appropriateness=5,
    output_quality=5,
    resource_efficiency=5,
    learning_application=5,
)

# Two values of each field that a yes is bound to: the one that was seen, and another.
SEEN: Final[dict[str, tuple[Any, Any]]] = {
    "type": ("push", "merge"),
    "text": ("git push", "git push --force"),
    "target": (Target(name="main"), Target(name="main", url="https://evil.example")),
    "paths": (("a", "b"), ("b", "a")),
    "remote": ("origin", "elsewhere"),
    "cwd": (None, "/srv"),
    "project": ("web", None),
    "model": ("llama3", "gpt-5"),
    "provider": ("local", "cloud"),
    "cloud": (None, True),
    "dependency": ("store", "bank"),
    "context": (msgspec.Raw(b'{"n":1}'), msgspec.Raw(b'{"n":1,"to":"x"}')),
    "extra": (msgspec.Raw(b'{"to":"a"}'), msgspec.Raw(b'{"to":"b"}')),
    "observation": (Observation(url="https://a/"), Observation(url="https://b/")),
    "risk": (None, "high"),
    "reversibility": (None, "irreversible"),
}
# Of each field that may be otherwise the next time, what was seen and what may come instead.
FREE: Final[dict[str, tuple[Any, Any]]] = {
    "at": (None, at(0)),
    "wait": (False, False),
    "timeout_s": (None, 60.0),
    "urgency": ("normal", "high"),
    "dry_run": (False, False),
    "supersedes": (None, "p0"),
    "description": ("a", "b"),
    "rationale": ("a", "b"),
    "rollback": ("", "git revert"),
    "session": ("s1", "s2"),
    "episode": ("e1", None),
    "chain": (None, "c2"),
    "task": ("t1", "t2"),
    "confidence": (None, 0.95),
    "scores": (None, FIVE),
    "cost_usd": (1.0, 0.5),
    "tokens": (Tokens(input=9, output=9, cached=4), Tokens(input=9, cached=5)),
}
NAMES: Final = frozenset({"id", "agent", "request_id"})  # of the proposal, of who asks, of a yes
DEARER: Final[list[dict[str, Any]]] = [
    {"cost_usd": 1.01},
    {"cost_usd": None},
    {"tokens": Tokens(input=10, cached=5)},
    {"tokens": Tokens(input=9, cached=3)},
    {"tokens": Tokens(output=10)},
]


FIRST: Final = {name: values[0] for name, values in (SEEN | FREE).items()}


def proposed(t: float, id_: str, values: dict[str, Any]) -> Proposed:
    fields = {name: value for name, value in values.items() if value is not None}
    return propose(t, id=id_, **fields)


def allowed_after_a_yes(again: dict[str, Any]) -> bool:
    """Return whether an approval of the first proposal covers this one."""
    queue = QueueStory()
    asked = queue.proposes(proposed(0, "p1", FIRST))
    queue.answers(1, asked.request_id)
    return queue.proposes(proposed(2, "p2", again)).cause == "human_approved"


def test_every_field_is_either_bound_or_free() -> None:
    assert set(SEEN) == BOUND
    assert set(FREE) | NAMES == UNBOUND


@given(st.sets(st.sampled_from(sorted(FREE))))
def test_nothing_but_what_is_bound_changes_the_answer(changed: set[str]) -> None:
    assert allowed_after_a_yes({**FIRST, **{name: FREE[name][1] for name in changed}})


@given(st.sets(st.sampled_from(sorted(SEEN)), min_size=1), st.sets(st.sampled_from(sorted(FREE))))
def test_whatever_is_bound_and_changed_is_not_what_was_approved(
    bound: set[str], free: set[str]
) -> None:
    changes = {name: SEEN[name][1] for name in bound} | {name: FREE[name][1] for name in free}

    assert not allowed_after_a_yes({**FIRST, **changes})


@pytest.mark.parametrize("change", DEARER, ids=str)
def test_what_costs_more_or_does_not_say_is_not_what_was_approved(change: dict[str, Any]) -> None:
    assert not allowed_after_a_yes({**FIRST, **change})


def test_the_hash_of_a_screen_is_nothing_that_a_person_could_have_read() -> None:
    seen, moved = (Observation(app_name="Files", screen_hash=name) for name in "ab")
    blind, bare = Proposal(type="x", observation=Observation(screen_hash="a")), Proposal(type="x")

    assert binding("a", "x", Proposal(type="x", observation=seen)) == binding(
        "a", "x", Proposal(type="x", observation=moved)
    )
    assert binding("a", "x", blind) == binding("a", "x", bare)


def test_without_a_text_the_description_is_what_was_seen() -> None:
    said = [Proposal(type="x", description=words) for words in "ab"]

    assert binding("a", "x", said[0]) != binding("a", "x", said[1])


def test_what_a_type_is_called_does_not_matter() -> None:
    assert binding("a", "push", Proposal(type="Push")) == binding(
        "a", "push", Proposal(type="push")
    )
    assert binding("a", "push", Proposal(type="push")) != binding(
        "b", "push", Proposal(type="push")
    )


def asked(**context: Any) -> Proposal:
    text = context.get("text", "")
    text = text if isinstance(text, str) else ""
    return Proposal(type="push", text=text, context=msgspec.Raw(msgspec.json.encode(context)))


@pytest.mark.parametrize(
    ("shown", "done", "covered"),
    [
        ({}, {}, True),
        ({"why": "x"}, {"context": {"why": "x"}}, True),
        ({"why": "x"}, {"context": {"why": "y"}}, False),
        ({"why": "x"}, {}, False),
        ({"why": ""}, {}, False),
        ({"why": "x"}, {"rationale": "x"}, False),
        ({"session": "s"}, {}, True),
        ({"session": "t"}, {}, False),
        ({"confidence": 1}, {"confidence": 1.0}, True),
        ({"confidence": True}, {"confidence": 1.0}, False),
        ({"flag": 1}, {"extra": {"flag": 1}}, True),
        ({"flag": 1}, {"extra": {"flag": True}}, False),
        ({"to": [{"all": True}]}, {"context": {"to": [{"all": 1}]}}, False),
        ({"text": ["x"]}, {}, False),
        ({"paths": []}, {}, True),
        ({"text": "x"}, {"text": "x"}, True),
        ({"text": "x"}, {}, False),
        ({}, {"text": "x"}, False),
        ({"remote": None}, {}, True),
        ({"tokens": {"input": 5, "output": None}}, {"tokens": Tokens(input=5)}, True),
        ({"target": {"name": "m", "url": None}}, {"target": "m"}, True),
        ({"paths": ["a"]}, {"paths": ("a",)}, True),
        ({"paths": ["a"]}, {"paths": ("b",)}, False),
        ({"paths": ["a"]}, {}, False),
        ({"type": "minor", "extra": 1}, {"context": {"type": "minor", "extra": 1}}, True),
        ({"type": "minor", "extra": 1}, {}, False),
        ({"diff": "+a"}, {"context": {"diff": "+a"}}, True),
        ({"diff": "+a"}, {"context": {"diff": "+b"}}, False),
        ({"to": "a"}, {"extra": {"to": "a"}}, True),
        ({"to": "a"}, {"extra": {"to": "b"}}, False),
        ({"target": {"name": "m", "at": 1}}, {"target": "m", "extra": {"target": {"at": 1}}}, True),
        ({"target": {"name": "m"}}, {"target": "m", "extra": {"target": {"at": 1}}}, False),
        ({"cost_usd": 2}, {"cost_usd": 1.0}, True),
        ({"cost_usd": 2}, {"cost_usd": 3.0}, False),
        ({}, {"cost_usd": 0.1}, False),
        ({"cost_usd": 2, "shape": 1}, {"context": {"shape": 1}}, False),
        ({"cost_usd": "cheap"}, {}, True),
        ({"cost_usd": "cheap"}, {"cost_usd": 1.0}, False),
    ],
    ids=str,
)
def test_a_permission_is_for_what_its_ask_showed(
    shown: dict[str, Any], done: dict[str, Any], *, covered: bool
) -> None:
    for name in {"context", "extra"} & done.keys():
        done = {**done, name: msgspec.Raw(msgspec.json.encode(done[name]))}
    if "target" in done:
        done = {**done, "target": Target(name=done["target"])}

    assert permits(asked(**shown), Proposal(type="push", session="s", **done)) is covered


@pytest.mark.parametrize(
    ("text", "words", "covered"),
    [("", "to staging", True), ("", "to production", False), ("", "", False), ("x", "other", True)],
)
def test_a_permission_without_a_text_is_for_its_description(
    text: str, words: str, *, covered: bool
) -> None:
    ask = Proposal(type="deploy", text=text, description="to staging")

    assert permits(ask, Proposal(type="deploy", text=text, description=words)) is covered


def test_what_was_written_down_is_bound_as_before() -> None:
    queue = QueueStory()
    queue.answers(1, queue.proposes(proposed(0, "p1", FIRST)).request_id)
    queue.journal = [decode(encode(event)) for event in queue.journal]

    queue.engine = queue.replayed()

    assert queue.proposes(proposed(2, "p2", FIRST)).cause == "human_approved"


def test_an_action_is_the_same_however_it_is_explained() -> None:
    plain = Proposal(type="push", text="x", paths=("a", "b"), target=Target(name="t"))
    explained = msgspec.structs.replace(
        plain, type="Push", id="p2", description="why", session="s", context=msgspec.Raw(b'{"n":1}')
    )

    assert action_key("code", "push", plain) == action_key("code", "push", explained)
    assert len(action_key("code", "push", plain)) == 16


def test_each_part_of_what_would_be_done_makes_another_action() -> None:
    parts: list[dict[str, Any]] = [
        {},
        {"text": "x"},
        {"target": Target(name="x")},
        {"paths": ("x",)},
        {"remote": "x"},
        {"project": "x"},
        {"context": msgspec.Raw(b'{"diff":"+a"}')},
        {"context": msgspec.Raw(b'{"diff":"+b"}')},
    ]
    keys = {action_key("code", "push", Proposal(type="push", **part)) for part in parts}
    keys |= {
        action_key("ops", "push", Proposal(type="push")),
        action_key("code", "merge", Proposal(type="push")),
    }

    assert len(keys) == len(parts) + 2


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ({"paths": ["a", 1, "b"]}, ("a", "b")),
        ({"paths": "a"}, ()),
        ({}, ()),
    ],
)
def test_paths_that_an_ask_shows_are_found_in_its_context(context: Any, shown: object) -> None:
    assert shown_paths(asked(**context)) == shown


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ({"project": "web", "cwd": "/srv"}, ("web", "/srv")),
        ({"project": 1, "cwd": ["/srv"]}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_project_and_place_of_an_ask_are_found_in_its_context(context: Any, shown: object) -> None:
    found = as_shown(asked(**context))

    assert (found.project, found.cwd) == shown
