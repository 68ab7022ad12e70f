"""A request in words, before any place lays it out."""

from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.cards.request_card import (
    MAX_COLOURED,
    MAX_DIFFS,
    CardField,
    RequestCard,
    cut_middle,
    marked_parts,
    request_card,
)
from safetyd.cards.request_details import RequestDetails
from safetyd.cards.risk_words import danger_by
from safetyd.core.action_types import TypeConfig
from safetyd.core.events.guard_events import Paused
from safetyd.core.messages.proposal import Scores, Target
from safetyd.core.messages.verdict import ASK, CommandPart, Verdict
from safetyd.core.policy import Policy
from tests.cards.card_story import NOW, asked, card_of, context, details_of
from tests.core.approvals.queue_story import QueueStory
from tests.snapshot import check_snapshot
from tests.story import at, propose

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new <b>"
KINDS = ["file", "file", "hunk", "removed", "added"]


def field(card: RequestCard, name: str) -> CardField:
    return next(field for field in card.fields if field.name == name)


def names(card: RequestCard) -> list[str]:
    return [field.name for field in card.fields]


def test_the_card_is_the_same_from_the_engine_and_from_json() -> None:
    queue = QueueStory(Policy(profile="coding"))
    id_ = queue.asks(0, type="run_shell", text="ls; rm -rf ~/x", context=context(diff="+x", n=1))
    details = details_of(queue, id_.request_id)
    sent = msgspec.json.decode(msgspec.json.encode(details), type=RequestDetails)

    assert request_card(sent, ZoneInfo("UTC"), NOW) == request_card(details, ZoneInfo("UTC"), NOW)


def test_fields_come_in_one_order_with_what_an_approval_covers_first() -> None:
    card = card_of(
        text="git push",
        project="shop",
        target=Target(url="https://shop.example"),
        paths=("a",),
        cwd="/srv",
        cost_usd=4.0,
        context=context(diff=DIFF, to=["a@b.example"], branch="main"),
        extra=context(ticket="OPS-1"),
        model="m",
        session="s",
        rationale="because",
        description="Push",
        rollback="git revert",
    )

    assert names(card) == [
        *("text", "paths", "target", "recipients", "cost", "project", "folder", "risk"),
        *("deadline", "rules", "context.diff", "context", "extra", "model", "session"),
        *("rationale", "description", "rollback", "asked"),
    ]
    assert {each.name for each in card.fields if not each.bound} == {
        *("risk", "deadline", "rules", "session", "rationale", "description", "rollback"),
        "asked",
    }
    assert {each.name for each in card.fields if each.needed} == {"risk", "deadline", "rules"}
    assert card.title == "push by code in shop"
    assert card.find("recipients") == "to: a@b.example"
    assert card.find("extra") == "ticket: OPS-1"


def test_nothing_that_an_agent_sent_is_missing() -> None:
    scores = dict.fromkeys(Scores.__struct_fields__, 4.0)
    card = card_of(
        session="nightly",
        reversibility="reversible",
        confidence=0.5,
        cloud=True,
        scores=Scores(**scores),
        remote="origin",
    )

    said = {each.name: each.text for each in card.fields}
    assert (said["session"], said["reversibility"]) == ("nightly", "reversible")
    assert (said["confidence"], said["cloud"], said["remote"]) == ("0.5", "true", "origin")
    assert "output_quality: 4.0" in said["scores"]


@pytest.mark.parametrize("name", ["diff", "patch", "change"])
def test_a_diff_of_the_context_is_a_field_and_each_line_has_its_kind(name: str) -> None:
    card = card_of(context=context(**{name: DIFF, "tests": 12}))

    diff = field(card, f"context.{name}")
    assert (diff.title, diff.text, diff.named) == (name, DIFF, "a diff of 5 lines")
    assert [line.kind for line in diff.coloured] == KINDS
    assert card.find("context") == "tests: 12"


@pytest.mark.parametrize(
    ("said", "shown"),
    [(b"[1, 2]", "1\n2"), (b'"words"', "words"), (b'{"diff": ["-old"]}', "diff: -old")],
)
def test_context_of_any_shape_is_shown(said: bytes, shown: str) -> None:
    assert card_of(context=msgspec.Raw(said)).find("context") == shown


def test_more_diffs_than_anybody_reads_stay_in_the_context() -> None:
    card = card_of(context=context(**{f"change{n}": DIFF for n in range(MAX_DIFFS + 1)}))

    assert sum(each.diff for each in card.fields) == MAX_DIFFS
    assert card.find("context").startswith(f"change{MAX_DIFFS}:\n  --- a/x\n")


def test_a_patch_in_the_text_is_coloured_and_its_parts_are_marked() -> None:
    command = f"rm -rf ~/x; git apply <<'E'\n{DIFF}\nE\n"

    text = card_of(Policy(profile="coding"), type="run_shell", text=command).fields[0]

    lines = list(text.coloured)
    assert [line.kind for line in lines] == ["", *KINDS, "", ""]
    assert ("rm -rf ~/x", True) in lines[0].pieces


@given(st.text("+-@ab\n "), st.lists(st.integers(0, 30)), st.booleans())
def test_no_letter_is_lost_whatever_is_marked_and_coloured(
    text: str,
    edges: list[int],
    diff: bool,  # noqa: FBT001
) -> None:
    whole = f"{DIFF}\n{text}"
    marks = tuple(
        CommandPart("x", "x", "x", "", start, end)
        for start, end in pairwise(sorted({edge for edge in edges if edge < len(whole)}))
    )

    shown = CardField(name="n", title="t", lines=tuple(whole.split("\n")), diff=diff, marks=marks)

    assert ["".join(piece for piece, _ in line.pieces) for line in shown.coloured] == whole.split(
        "\n"
    )


def test_a_very_long_diff_is_shown_without_colour() -> None:
    lines = ("+a",) * (MAX_COLOURED + 1)

    shown = list(CardField(name="n", title="t", lines=lines, diff=True).coloured)

    assert len(shown) == len(lines)
    assert {line.kind for line in shown} == {""}


def test_one_path_does_not_pass_for_two() -> None:
    assert card_of(paths=("a\nb", "c")).find("paths") == "a\\nb\nc"
    assert card_of(paths=(r"a\nb",)).find("paths") == r"a\\nb"


def test_one_name_in_a_context_does_not_pass_for_two_entries() -> None:
    said = card_of(context=context(**{"note: x\nenvironment": "staging"})).find("context")

    assert said == r"note: x\nenvironment: staging"


def repeated() -> RequestCard:
    """Return the card of a request without a text that was proposed twice."""
    queue = QueueStory()
    id_ = queue.asks(0, text="", cost_usd=None).request_id
    queue.asks(1, "p2", text="")
    return request_card(details_of(queue, id_), ZoneInfo("UTC"), NOW)


def paused() -> RequestCard:
    queue = QueueStory()
    queue.happens(Paused(at=at(0), t=0.0, agent="code", source="anomaly", by="", reason="loops"))
    (own,) = queue.engine.approvals.pending()
    return request_card(details_of(queue, own.id), ZoneInfo("UTC"), NOW)


def answered_before() -> RequestCard:
    queue = QueueStory()
    queue.answers(2, queue.asks(0, "p0", text="old").request_id, "denied", words="not on a Friday")
    id_ = queue.asks(3, text="git push").request_id
    return request_card(details_of(queue, id_), ZoneInfo("UTC"), NOW)


def test_past_answers_about_other_actions_name_them() -> None:
    queue = QueueStory()
    queue.answers(2, queue.asks(0, "p0", text="git push -f").request_id, "denied")
    other = details_of(queue, queue.asks(3, text="git push").request_id)
    same = msgspec.structs.replace(other, text="git push -f")

    shown = (request_card(each, ZoneInfo("UTC"), NOW).find("before") for each in (other, same))

    assert [words.count('"git push -f"') for words in shown] == [1, 0]


def test_words_of_cards_are_those_of_the_snapshot() -> None:
    shell: dict[str, Any] = {"type": "run_shell", "text": "systemctl stop x"}
    cards = {
        "in another zone": card_of(zone=ZoneInfo("Europe/Berlin")),
        "a command": card_of(cwd="/srv/web", **shell),
        "a command in a project's folder": card_of(cwd="app", project="web", **shell),
        "a command in a project": card_of(project="web", **shell),
        "a command somewhere": card_of(**shell),
        "a description": card_of(text="", description="Push the fix"),
        "free": card_of(cost_usd=0.0),
        "nearly free": card_of(cost_usd=0.004),
        "proposed twice": repeated(),
        "a paused agent": paused(),
        "answered before": answered_before(),
    }
    lines = (f"== {name}\n{shown(card)}\n" for name, card in cards.items())

    check_snapshot(Path(__file__).with_name("cards.txt"), "\n".join(lines))
    assert paused().own
    assert not card_of(type="unpause").own


def shown(card: RequestCard) -> str:
    fields = (f"{each.title}: {each.text}" for each in card.fields)
    return "\n".join((card.title, *fields))


@pytest.mark.parametrize(
    ("reversibility", "rules", "said"),
    [
        ("reversible", (), "low, reversible"),
        ("unknown", (), "low, reversibility unknown"),
        ("irreversible", ("gate.irreversible:x",), "low, irreversible"),
        ("unknown", ("gate.irreversible:x",), "low, irreversible (by a rule)"),
        (
            "read_only",
            ("gate.irreversible:x",),
            "low, irreversible (by a rule; the type is read only)",
        ),
    ],
)
def test_risk_says_whether_a_rule_found_it_irreversible(
    reversibility: str, rules: tuple[str, ...], said: str
) -> None:
    assert danger_by("low", reversibility, rules) == said


def test_a_rule_that_finds_something_irreversible_knows_more_than_the_type() -> None:
    types = {"tap": TypeConfig(tier="requires_permission", reversibility="reversible")}
    queue = QueueStory(Policy(types=types))
    asked_ = queue.proposes(propose(0, type="tap", target=Target(label="Submit order")))

    card = request_card(details_of(queue, asked_.request_id), ZoneInfo("UTC"), NOW)

    assert card.reversibility == "irreversible"


def part(start: int, end: int, shown: str = "") -> CommandPart:
    return CommandPart("unknown", "x", "does a thing", shown, start, end)


def test_of_many_parts_five_are_told_and_the_rest_is_counted() -> None:
    details = asked()
    parts = tuple(part(0, 1, f"x{number % 7}") for number in range(14))
    verdict = msgspec.structs.replace(details.verdicts[0], parts=parts)

    card = request_card(msgspec.structs.replace(details, verdicts=(verdict,)), ZoneInfo("UTC"), NOW)

    lines = (*(f"`x{number}`: does a thing" for number in range(5)), "and 2 more")
    assert field(card, "parts").lines == lines


def test_parts_are_marked_where_they_stand_in_the_text() -> None:
    assert marked_parts("ä; rm x", [part(4, 8), part(4, 6)]) == [("ä; ", False), ("rm x", True)]
    assert marked_parts("ls", []) == [("ls", False)]


@pytest.mark.parametrize(
    ("text", "found"), [("ls", part(0, 9)), ("ä", part(0, 1)), ("\udc80 x", part(0, 1))]
)
def test_a_text_that_is_not_the_one_that_was_read_is_left_as_it_is(
    text: str, found: CommandPart
) -> None:
    assert marked_parts(text, [found]) == [(text, False)]


def with_ways(card: RequestCard) -> RequestCard:
    return msgspec.structs.replace(card, code="4821", approve_by=("link",))


def test_a_card_names_what_it_drops_and_offers_no_approval_of_it() -> None:
    card = with_ways(card_of(cwd="/srv", rationale="because"))
    at_folder = names(card).index("folder")

    fewer, least = card.first(names(card).index("rationale")), card.first(at_folder)

    assert fewer.left_out == ("agent's reason", "rollback plan", "cost", "requested")
    assert (fewer.whole, fewer.code, fewer.approve_by) == (True, "4821", ("link",))
    assert "folder" in least.left_out
    assert (least.whole, least.code, least.approve_by) == (False, "", ())
    assert least.commands == (f"safetyd show {card.id}", f"safetyd deny {card.id}")
    assert least.unshown.startswith("Not shown here: folder, risk, deadline, ")


def test_a_long_text_is_cut_in_its_middle_and_cannot_be_approved_then() -> None:
    card = with_ways(card_of(text="begin" + "x" * 1000 + "end"))

    short = card.with_text(90)

    assert card.with_text(2000) == card
    assert short.fields[0].text.startswith("begin")
    assert short.fields[0].text.endswith("end")
    assert short.left_out == ("918 characters of the exact text",)
    assert (short.whole, short.code) == (False, "")


@given(st.text(), st.integers(0, 50))
def test_a_cut_keeps_both_ends_and_counts_the_rest(text: str, most: int) -> None:
    shown, cut = cut_middle(text, most)

    assert cut == max(len(text) - most, 0)
    assert shown == text if not cut else shown.startswith(text[: most - most // 3])


def test_a_target_has_its_label_and_site_in_the_question() -> None:
    label = card_of(
        type="click", text="", target=Target(label="Buy now", url="https://a.example/x")
    )
    window = card_of(type="click", text="", target=Target(name="Submit", window="Bank"))

    assert label.question(60) == 'click by code: "Buy now" on a.example'
    assert window.question(60) == 'click by code: "Submit" on Bank'


def test_paths_are_the_question_if_there_is_no_text() -> None:
    card = card_of(type="delete_file", text="", description="Tidy", paths=("/srv/a", "/srv/b"))

    assert card.question(60) == "delete_file by code: /srv/a and 1 more"
    assert names(card)[:2] == ["paths", "text"]
    assert card.find("text") == "Tidy"


def test_a_long_question_keeps_both_ends_and_its_names() -> None:
    card = card_of(text=f"begin{'x' * 500}end", session="s")

    assert card.question(60).startswith("push by code: begin")
    assert card.question(60).endswith("end")
    assert len(card_of(type="t" * 128, text="go" * 40).question(60)) == 60


def test_a_question_without_an_action_has_names_only() -> None:
    assert card_of(text="", description="").question(60) == "push by code"
    assert card_of(text="").first(0).question(10) == "push b…ode"


def test_the_gravest_rule_comes_first_and_others_are_in_words() -> None:
    reasons = (
        Verdict("scores", ASK, "scores.average", "Low score", also=("scores.autonomy",)),
        Verdict("rules", ASK, "rules.require_permission", "A rule", also=("odd",)),
        Verdict("gate", ASK, "gate.irreversible:apply", "Irreversible", also=("gate.new_rule:x",)),
    )
    details = msgspec.structs.replace(asked(text="apply"), verdicts=reasons)

    lines = request_card(details, UTC, NOW).find("rules").split("\n")

    assert lines == [
        "gate.irreversible:apply: Irreversible",
        "rules.require_permission: A rule",
        "scores.average: Low score",
        "gate.new_rule:x: new rule: x",
        "odd: odd",
        "scores.autonomy: the score for acting without approval is too low",
    ]
