import msgspec
import pytest
from msgspec.structs import replace

from safetyd.core.action_types import Kinds, TypeConfig
from safetyd.core.approvals.assurance import (
    TERMINAL_ONLY,
    Given,
    NotTaken,
    approvable,
    fits_sms,
    refusal,
    risk_within,
    says_all,
    taken,
)
from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Moment
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.messages.proposal import Proposal, Target, Tokens
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, propose

ASKING = Policy(rules=RulesConfig(prohibited_means="require_confirmation"))


def request(kind: str) -> Request:
    """Return the request for a proposal of this type."""
    queue = QueueStory(ASKING)
    return queue.request(queue.proposes(propose(0, type=kind, text="do it")).request_id)


@pytest.mark.parametrize("via", ["cli", "tui", "link", "link:email", "sms"])
def test_what_is_neither_dear_nor_prohibited_is_approved_in_every_way(via: str) -> None:
    assert approvable(request("push"), via, ())


@pytest.mark.parametrize("kind", [*sorted(TERMINAL_ONLY), "change_password"])
def test_money_rights_and_the_prohibited_are_approved_at_a_terminal_only(kind: str) -> None:
    asked = request(kind)

    assert approvable(asked, "cli", ())
    assert approvable(asked, "tui", ())
    assert not approvable(asked, "link:email", ())
    assert not approvable(asked, "sms", ())


def test_ways_that_a_type_permits_leave_the_others_out() -> None:
    asked = request("push")

    assert approvable(asked, "link:email", ("cli", "link"))
    assert not approvable(asked, "link:email", ("cli", "tui"))
    assert not approvable(asked, "cli", ("link",))


@pytest.mark.parametrize(
    ("kind", "via", "ways", "says"),
    [
        ("push", "web", (), ""),
        ("push", "web", ("web",), ""),
        ("push", "web", ("cli", "tui"), "cli or tui"),
        ("purchase", "web", ("web",), "safetyd approve req_"),
        ("purchase", "cli", (), ""),
    ],
)
def test_a_refusal_says_which_way_can_approve(kind, via, ways, says) -> None:
    asked = request(kind)
    said = refusal(asked, via, ways)

    assert says in said
    assert approvable(asked, via, ways) is not bool(said)


def test_what_a_way_cannot_show_says_what_does() -> None:
    queue = QueueStory(ASKING)
    asked = queue.request(queue.proposes(propose(0, type="push", text="x" * 900)).request_id)

    assert refusal(asked, "sms", ()).endswith(f"safetyd show {asked.id}")


def test_no_setting_lets_a_link_approve_a_purchase() -> None:
    assert not approvable(request("purchase"), "link:email", ("link",))


def test_ways_of_a_type_are_those_of_its_other_names_and_of_what_an_agent_made_worse() -> None:
    own = TypeConfig(risk="low", approve_via=("cli",))
    kinds = Kinds({"bake": own, "cook": TypeConfig(same_as="bake")}, "strict")

    assert kinds.named("Bake").approve_via == ("cli",)
    assert kinds.named("cook").approve_via == ("cli",)
    assert kinds.of(Proposal(type="bake", risk="high")).approve_via == ("cli",)
    assert kinds.named("push").approve_via == ()


@pytest.mark.parametrize(
    ("risk", "most", "within"),
    [("low", "low", True), ("high", "medium", False), ("prohibited", "high", False)],
)
def test_a_way_may_be_open_to_lower_risks_only(risk, most, within) -> None:
    assert risk_within(risk, most) is within


def test_a_text_with_nothing_beside_it_says_all() -> None:
    assert says_all(Proposal(type="push", text="git push\ngit tag naïve", rationale="why"))
    assert says_all(Proposal(type="push", text="x", session="s", confidence=0.9))


@pytest.mark.parametrize(
    "fields",
    [
        {"text": ""},
        {"text": "git push\u202e"},
        {"text": "git\x1b[8mpush"},
        {"target": Target(label="main")},
        {"paths": ("a.py",)},
        {"remote": "origin"},
        {"extra": msgspec.Raw(b'{"to":"a"}')},
        {"context": msgspec.Raw(b'{"diff":"+a"}')},
        {"context": msgspec.Raw(b'{"n":1}')},
        {"model": "llama3"},
        {"cost_usd": 1.0},
        {"tokens": Tokens(input=1)},
    ],
)
def test_other_fields_and_invisible_characters_are_not_shown_by_the_text(fields) -> None:
    proposal = Proposal(**({"type": "push", "text": "git push"} | fields))

    assert not says_all(proposal)
    assert not fits_sms(proposal)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("x" * 60, True),
        ("x" * 61, False),
        ("git push ~{}[]|^", True),
        ("git\npush", False),
        ("naïve", False),
        ("echo `id`", False),
    ],
)
def test_an_sms_can_show_a_short_line_in_its_own_alphabet(text, fits) -> None:
    assert fits_sms(Proposal(type="push", text=text)) is fits


def test_an_answer_counts_only_in_a_permitted_way_for_what_was_shown() -> None:
    asked = request("purchase")
    yes = Given(answer="approved", by="alice", via="cli")

    def code(given: Given) -> str:
        judged = taken(asked, given, Moment(at=at(1), t=1.0), (), waits=False)
        return judged.code if isinstance(judged, NotTaken) else judged.answer

    assert code(yes) == "approved"
    assert code(replace(yes, via="link:email")) == "elsewhere"
    assert code(replace(yes, digest="0" * 16)) == "digest_mismatch"
    assert code(replace(yes, answer="denied", via="sms")) == "denied"
