"""Similar requests form sets; a set never hides a difference."""

import re
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.cards.request_card import RequestCard, request_card
from safetyd.cards.set_card import DIFFERENCES, SetCard, set_card
from safetyd.cards.similar_requests import MAX_IN_SET, WINDOW, grouped, set_ref, shapes
from safetyd.core.approvals.request import ApprovalsConfig, Request
from safetyd.core.messages.binding import UNBOUND
from safetyd.core.messages.proposal import Proposal, Target
from safetyd.core.policy import Policy
from tests.cards.card_story import NOW, context, details_of
from tests.core.approvals.queue_story import QueueStory

SHELL: dict[str, Any] = {"type": "run_shell"}


class Story:
    """Requests of one engine."""

    def __init__(self) -> None:
        self.queue = QueueStory(Policy(approvals=ApprovalsConfig(max_pending_per_agent=100)))
        self.requests: list[Request] = []

    def asks(self, t: float = 0, **fields: Any) -> Request:
        fields = {"type": "db_write", "text": "UPDATE t SET x = 1 WHERE id = 1", **fields}
        decision = self.queue.asks(t, f"p{len(self.requests)}", **fields)
        request = self.queue.request(decision.request_id)
        self.requests.append(request)
        return request

    def groups(self) -> list[tuple[Request, ...]]:
        return grouped(self.requests, shapes(self.queue.engine.reader))

    def sizes(self) -> list[int]:
        return [len(group) for group in self.groups()]

    def cards(self, requests: tuple[Request, ...]) -> list[RequestCard]:
        known = (details_of(self.queue, request.id) for request in requests)
        return [request_card(details, None, NOW) for details in known]

    def set(self, requests: tuple[Request, ...] | None = None) -> SetCard:
        requests = requests or tuple(self.requests)
        return set_card(self.cards(requests), set_ref(requests))


def sizes(*each: dict[str, Any]) -> list[int]:
    story = Story()
    for fields in each:
        story.asks(**fields)
    return story.sizes()


def texts(*said: str, **fields: Any) -> list[int]:
    return sizes(*({"text": text, **fields} for text in said))


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [
        ({}, "UPDATE t SET x = 1 WHERE id = 1", "UPDATE t SET x = 1 WHERE id = 2"),
        ({}, "UPDATE users_1 SET x = 1", "UPDATE users_22 SET x = 1"),
        (SHELL, "kubectl drain node-07", "kubectl drain node-12"),
        (SHELL, "docker restart app-3 db-3", "docker restart app-4 db-5"),
        (SHELL, "certbot renew --cert-name a-1.x.com", "certbot renew --cert-name a-2.x.com"),
        ({}, "restore 3fa9c1d", "restore 77ab01c"),
        (
            {},
            "restore 123e4567-e89b-12d3-a456-426614174000",
            "restore 00000000-e89b-12d3-a456-42661417400f",
        ),
    ],
)
def test_requests_that_differ_in_a_number_or_a_numbered_name_are_similar(
    fields: dict[str, Any], first: str, second: str
) -> None:
    assert texts(first, second, **fields) == [2]


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [
        (SHELL, "kubectl drain node-1", "kubectl drain node-2 --force"),
        (SHELL, "kubectl drain node-1 --force", "kubectl drain node-1 --grace"),
        (SHELL, "kubectl drain --timeout=1s node-1", "kubectl drain --timeout=9s node-1"),
        (SHELL, "kubectl -n team-1 drain n1", "kubectl -n team-2 drain n1"),
        (SHELL, "kubectl drain n1 --grace-period 1", "kubectl drain n1 --grace-period 9"),
        (SHELL, "certbot renew --cert-name a.x1.com", "certbot renew --cert-name a.x2.com"),
        (SHELL, "certbot renew --cert-name x1.com", "certbot renew --cert-name x2.com"),
        (SHELL, "certbot renew --server a-1.x.com", "certbot renew --server a-2.x.com"),
        (SHELL, "route 10.0.0.3", "route 10.0.0.4"),
        (SHELL, "python2 tool.py", "python3 tool.py"),
        (SHELL, "kill 1 && rm7 x", "kill 1 && rm8 x"),
        (SHELL, "ssh web-03 reboot", "ssh web-04 reboot"),
        (SHELL, "scp a web-3:/srv", "scp a web-4:/srv"),
        (SHELL, "sudo -u app1 kill 4", "sudo -u app2 kill 4"),
        (SHELL, "kill 411", "kill -9 411"),
        (SHELL, "kill 411", "kill 1"),
        (SHELL, "chmod 600 /srv/key", "chmod 777 /srv/key"),
        (SHELL, "bash [..]", "bash [..]"),
        ({}, "pay 5 to bob", "pay 500 to bob"),
        ({}, "SET price = 5 WHERE id = 1", "SET price = 9 WHERE id = 1"),
        ({}, "charge $5 now", "charge $9 now"),
        ({}, "raise by 5% now", "raise by 9% now"),
        ({}, "mail to bob1@example.com", "mail to bob2@example.com"),
        ({}, "copy to db3.example.com", "copy to db4.example.com"),
        ({}, "copy to 10.0.0.3", "copy to 10.0.0.4"),
        ({}, "copy to db:5432", "copy to db:5433"),
        ({}, "copy to https://db3.example.com/x", "copy to https://db4.example.com/x"),
        ({}, "call 4915112345678", "call 4915112345679"),
        ({}, "call +491511", "call +491512"),
        ({}, "rate is 9.99", "rate is 1.99"),
        ({}, "enable auth on 1", "disable auth on 1"),
        ({}, "v2 migrate", "v3 migrate"),
    ],
)
def test_another_option_program_host_recipient_or_price_is_another_entry(
    fields: dict[str, Any], first: str, second: str
) -> None:
    assert texts(first, second, **fields) == [1, 1]


BASE: dict[str, Any] = {"text": "UPDATE t SET x = 1 WHERE id = 1"}
OTHER: dict[str, Any] = {"text": "UPDATE t SET x = 1 WHERE id = 2"}


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": "other"},
        {"keyless": True},
        {"type": "deploy"},
        {"project": "shop"},
        {"risk": "high"},
        {"reversibility": "irreversible"},
        {"cost_usd": 5.0},
        {"remote": "origin"},
        {"cwd": "/srv"},
        {"context": context(to=["bob@example.com"])},
        {"extra": context(flag=True)},
        {"session": "s-2"},
        {"urgency": "high"},
        {"paths": ("a/b.txt",)},
        {"target": Target(label="Save")},
        {"resolved": ("/srv/a",)},
        {"model": "big"},
    ],
)
def test_any_other_difference_makes_another_entry(fields: dict[str, Any]) -> None:
    assert sizes(BASE, {**OTHER, **fields}) == [1, 1]


@pytest.mark.parametrize("name", ["description", "rationale", "rollback", "task", "confidence"])
def test_words_about_an_action_may_differ_and_are_listed(name: str) -> None:
    story = Story()
    values: tuple[Any, Any] = (0.4, 0.5) if name == "confidence" else ("for Ann", "for Bob, too")
    for fields, value in zip((BASE, OTHER), values, strict=True):
        story.asks(**fields, **{name: value})

    card = story.set()

    assert story.sizes() == [2]
    for value, member in zip(values, card.members, strict=True):
        assert str(value) in member.text


@pytest.mark.parametrize(
    ("first", "second", "similar"),
    [
        ("docs/page-1.md", "docs/other.md", True),
        ("docs/page-1.md", "docs/page-1.sh", False),
        ("docs/page-1.md", "src/page-1.md", False),
        ("docs/a", "docs/.ssh", False),
        ("docs/a.md", "docs/../a.md", False),
        ("docs/a.md", "docs/a\n.md", False),
    ],
)
def test_files_of_one_folder_and_kind_are_similar(first: str, second: str, similar: bool) -> None:  # noqa: FBT001
    common = {"type": "delete_file", "text": ""}
    each = ({**common, "paths": (path,), "description": "tidy up"} for path in (first, second))

    assert sizes(*each) == ([2] if similar else [1, 1])


def test_a_file_in_the_text_may_differ_if_it_is_one_of_the_paths() -> None:
    named = [{"text": f"load data/{n}.csv", "paths": (f"data/{n}.csv",)} for n in ("a", "b")]

    assert sizes(*named) == [2]
    assert texts("load data/a.csv", "load data/b.csv") == [1, 1]


@pytest.mark.parametrize(
    ("first", "second", "similar"),
    [
        ({"label": "Archive row 1"}, {"label": "Archive row 2"}, True),
        ({"url": "https://a.example/item/1"}, {"url": "https://a.example/item/2"}, True),
        ({"url": "https://a1.example/item"}, {"url": "https://a2.example/item"}, False),
        ({"url": "https://a.example/i?to=1"}, {"url": "https://a.example/i?to=2"}, False),
        ({"url": "https://[1"}, {"url": "https://[2"}, False),
        ({"label": "Archive row 1"}, {"label": "Keep row 1"}, False),
        ({"label": "Tip $1"}, {"label": "Tip $9"}, False),
    ],
)
def test_targets_may_differ_in_a_number(
    first: dict[str, str],
    second: dict[str, str],
    similar: bool,  # noqa: FBT001
) -> None:
    each = ({"type": "submit_form", "target": Target(**target)} for target in (first, second))

    assert sizes(*each) == ([2] if similar else [1, 1])


def test_a_command_that_cannot_be_analysed_is_similar_to_no_other() -> None:
    story = Story()
    reader = story.queue.engine.reader
    reader._table = None
    for number in (1, 2):
        story.asks(**SHELL, text=f"kubectl drain node-{number}")

    assert story.sizes() == [1, 1]


def test_a_request_that_permits_more_than_its_action_is_always_alone() -> None:
    story = Story()
    for number in (1, 2):
        story.asks(text=f"UPDATE t SET x = 1 WHERE id = {number}")
    permission = [
        msgspec.structs.replace(one, asked=msgspec.structs.replace(one.asked, permission=True))
        for one in story.requests
    ]
    shape = shapes(story.queue.engine.reader)

    assert [len(group) for group in grouped(permission, shape)] == [1, 1]
    assert [shape(request) for request in permission] == [None, None]


def test_a_set_covers_a_limited_time_and_number() -> None:
    story = Story()
    for number in range(MAX_IN_SET + 1):
        story.asks(text=f"UPDATE t SET x = 1 WHERE id = {number}")
    late = WINDOW.total_seconds() + 1
    for number in (900, 901):
        story.asks(late, text=f"UPDATE t SET x = 1 WHERE id = {number}")

    assert story.sizes() == [MAX_IN_SET, 1, 2]


def test_the_same_request_twice_is_no_set() -> None:
    story = Story()
    request = story.asks()

    assert [len(g) for g in grouped([request] * 3, shapes(story.queue.engine.reader))] == [1] * 3


def test_the_name_of_a_set_depends_on_each_id_and_digest() -> None:
    story = Story()
    first, second, third = (story.asks(text=f"restart app-{n}") for n in (1, 2, 3))
    changed = msgspec.structs.replace(
        third, asked=msgspec.structs.replace(third.asked, digest="sha256:other")
    )
    names = [
        set_ref(each)
        for each in ((first, second), (first, third), (first, changed), (first, second, third))
    ]

    assert len(set(names)) == 4
    assert set_ref((second, first)) == names[0]


WORDS = (
    "UPDATE restart app-1 app-2 id=3 id=4 $5 $6 -f --force 10.0.0.1 a@b1 a@b2 x.com price 7 70 "
    "'t1' t2 web3:80 node_4 [..] [A] 3fa9c1d \0 \u202e é"
)
words = st.sampled_from(WORDS.split(" "))
text = st.lists(words, min_size=1, max_size=6).map(" ".join)
proposals = st.fixed_dictionaries(
    {"text": text},
    optional={
        "type": st.sampled_from(["db_write", "deploy", "run_shell"]),
        "paths": st.lists(st.sampled_from(["a/b.md", "a/c.md", "~/.ssh/k", "a/1"]), max_size=2).map(
            tuple
        ),
        "description": text,
        "remote": st.sampled_from(["origin", "other"]),
        "cost_usd": st.sampled_from([1.0, 2.0]),
        "agent": st.sampled_from(["code", "nightly"]),
        "keyless": st.booleans(),
        "task": st.sampled_from(["t1", "t2\nt3"]),
        "target": st.builds(Target, label=text, url=st.sampled_from(["", "https://a/1"])),
    },
)


def story_of(each: list[dict[str, Any]]) -> Story:
    story = Story()
    for fields in each:
        decision = story.queue.asks(0, f"p{len(story.requests)}", **{"type": "deploy", **fields})
        request = story.queue.engine.approvals.find(decision.request_id or "")
        if request is not None and request not in story.requests:
            story.requests.append(request)
    return story


@given(st.lists(proposals, max_size=6))
def test_grouping_loses_nothing_and_never_joins_agents_rules_risks_or_bound_facts(
    each: list[dict[str, Any]],
) -> None:
    story = story_of(each)
    groups = story.groups()

    assert sorted(r.id for group in groups for r in group) == sorted(r.id for r in story.requests)
    for group in groups:
        for one, other in combinations(group, 2):
            assert (one.agent, one.asked.keyless) == (other.agent, other.asked.keyless)
            assert one.rules == other.rules
            assert (one.asked.risk, one.urgency) == (other.asked.risk, other.urgency)
            _assert_same_but_for_words(one.asked.proposal, other.asked.proposal)
            for mark in ("--force", "$5", "10.0.0.1", "a@b1", "web3:80", "x.com", "price 7 "):
                said = [f"{r.asked.proposal.text} ".count(mark) for r in (one, other)]
                assert said[0] == said[1]


def _assert_same_but_for_words(one: Proposal, other: Proposal) -> None:
    may_differ = {"text", "paths", "target", *UNBOUND} - {"cost_usd", "tokens"}
    for name in set(Proposal.__struct_fields__) - may_differ:
        assert getattr(one, name) == getattr(other, name)


@given(st.lists(proposals, max_size=6))
def test_grouping_does_not_depend_on_anything_else(each: list[dict[str, Any]]) -> None:
    story = story_of(each)

    assert [set_ref(g) for g in story.groups()] == [set_ref(g) for g in story.groups()]


@given(st.lists(proposals, min_size=2, max_size=5))
def test_the_card_of_a_set_shows_everything_that_the_cards_of_its_requests_show(
    each: list[dict[str, Any]],
) -> None:
    """Also of requests that would not be in one set."""
    story = story_of(each)
    if not story.requests:
        return
    cards = story.cards(tuple(story.requests))
    shown = story.set()

    listed = next(field for field in shown.fields if field.name == DIFFERENCES)
    for number, (card, member) in enumerate(zip(cards, shown.members, strict=True), 1):
        assert f"{number}. {member.text}" in listed.text
        for field in card.fields:
            if field.name not in {"asked", "before", "suggestion", "deadline"}:
                assert _is_shown(field.text, field.title, field.name, member.parts, shown)


def _is_shown(said: str, title: str, name: str, parts: tuple[str, ...], shown: SetCard) -> bool:
    """Say whether a text is common, common with marks that the parts fill, or listed in full."""
    escaped = said.replace("\\", "\\\\").replace("\n", "\\n")
    if f"{title}: {escaped}" in parts:
        return True
    common = next((field for field in shown.fields if field.name == name), None)
    if common is None:
        return False
    filled = common.text
    if filled != said:
        single = [part for part in parts if not re.match(r"[A-Z]: |[a-z ()]+: ", part)]
        lettered = {part[0]: part[3:] for part in parts if re.match(r"[A-Z]: ", part)}
        filled = re.sub(r"\[([A-Z])\]", lambda found: lettered[found[1]], filled)
        filled = filled.replace("[..]", single[0]) if single else filled
    return filled == said


def test_an_agents_own_marks_cannot_hide_a_difference() -> None:
    story = Story()
    for number in (1, 2):
        story.asks(text=f"restart app-{number} [..] [A]")

    assert [member.text for member in story.set().members] == [
        "exact text: restart app-1 [..] [A]",
        "exact text: restart app-2 [..] [A]",
    ]


def test_too_many_differences_for_marks_are_listed_in_full() -> None:
    story = Story()
    for number in (1, 2):
        said = " ".join(f"n{n * 10 + number}" for n in range(30))
        story.asks(text=f"restart {said}")

    assert all("exact text: restart n" in member.text for member in story.set().members)


def test_several_differences_have_letters() -> None:
    story = Story()
    for number in (1, 2):
        story.asks(text=f"restart app-{number} 3 db-{number + 5}")

    card = story.set()

    assert card.find("text") == "restart [A] 3 [B]"
    assert [member.text for member in card.members] == ["A: app-1, B: db-6", "A: app-2, B: db-7"]
    assert card.title == "2 requests: db_write by code"


def test_a_shortened_set_offers_no_approval() -> None:
    story = Story()
    for number in (1, 2):
        story.asks(text=f"restart app-{number}")
    card = msgspec.structs.replace(story.set(), code="4821", approve_by=("link",))

    short = card.first(1)

    assert (short.code, short.approve_by, short.whole) == ("", (), False)
    assert "the differences" in short.left_out
    assert short.commands == ("safetyd list --agent code",)
