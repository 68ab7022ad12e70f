"""What the card of a request shows, whichever page it is on."""

from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Scores, Target
from safetyd.core.policy import Policy
from safetyd.html_templates import environment
from safetyd.operators.views.request_view import card
from safetyd.web.pages.request_card_view import (
    MAX_DIFFS,
    MAX_LINES,
    AgentText,
    CardView,
    _runs,
    card_view,
    plain_card,
)
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

BERLIN = ZoneInfo("Europe/Berlin")
DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new <b>"
KINDS = ["file", "hunk", "removed", "added"]
SCORES = Scores(
    strategic_alignment=4,
    autonomy_appropriateness=4,
    output_quality=4,
    resource_efficiency=4,
    learning_application=4,
)


def shown(policy: Policy | None = None, now: datetime | None = None, **fields: object) -> CardView:
    """Return the card of a request for such a proposal, for somebody in Berlin."""
    queue = QueueStory(policy)
    asked = queue.asks(0, **fields)  # type: ignore[arg-type]
    request = queue.engine.approvals.find(asked.request_id or "")
    assert request is not None
    moment = Moment(now or at(100), 100.0)
    return card_view(plain_card(card(queue.engine, moment, request)), BERLIN, moment.at)


def text_of(said: AgentText) -> str:
    return "".join(piece for run in said.runs for piece, _ in run.pieces)


def kinds_of(said: AgentText) -> list[str]:
    return [run.kind for run in said.runs]


def html(view: CardView, level: int = 2) -> str:
    return (
        environment("safetyd.web", begin="card")
        .get_template("card/card.html")
        .render(card=view, level=level)
    )


def context(**said: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(said))


@pytest.mark.req("S3.30")
def test_fields_of_one_line_are_lines_of_a_table_and_others_have_boxes() -> None:
    view = shown(
        session="nightly",
        reversibility="reversible",
        confidence=0.5,
        cloud=True,
        project="two\nlines",
        rationale="short",
        scores=SCORES,
    )

    assert dict(view.claims) == {
        "session": "nightly",
        "reversibility": "reversible",
        "confidence": "0.5",
        "cloud": "true",
    }
    assert [each.title for each in view.words] == ["why, as the agent says", "project", "scores"]
    assert "two\nlines" in map(text_of, view.words)


@pytest.mark.parametrize("name", ["diff", "patch", "change"])
def test_diff_of_the_context_stands_alone_and_each_line_has_its_kind(name: str) -> None:
    view = shown(context=context(**{name: DIFF, "tests": 12}))

    (diff,) = view.diffs
    assert (diff.title, text_of(diff)) == (name, DIFF)
    assert kinds_of(diff) == KINDS
    assert [text_of(each) for each in view.words] == ["tests: 12"]


def test_what_only_has_the_name_of_a_diff_is_still_shown() -> None:
    view = shown(context=context(diff=["-old"], patch=""))

    assert view.diffs == ()
    assert [text_of(each) for each in view.words] == ["diff: -old\npatch: "]


@pytest.mark.parametrize("said", [b"[1, 2]", b'"words"'])
def test_context_that_is_no_object_is_shown(said: bytes) -> None:
    view = shown(context=msgspec.Raw(said))

    assert text_of(view.words[-1]) in {"1\n2", "words"}


def test_patch_in_the_text_is_coloured_and_its_parts_are_marked() -> None:
    command = f"rm -rf ~/x; git apply <<'E'\n{DIFF}\nE\n"
    view = shown(Policy(profile="coding"), type="run_shell", text=command)

    assert text_of(view.text) == command
    assert kinds_of(view.text) == ["same", *KINDS, "same"]
    assert ("rm -rf ~/x", True) in view.text.runs[0].pieces


def test_lines_of_a_diff_keep_their_signs_on_the_page() -> None:
    page = html(shown(context=context(diff=DIFF)))

    assert '<span class="line added">+new &lt;b&gt;</span></pre>' in page
    assert '<span class="line removed">-old\n</span>' in page
    assert '<span class="line hunk">@@ -1 +1 @@\n</span>' in page


def test_one_path_does_not_pass_for_two() -> None:
    view = shown(paths=("a\nb", "c"), target=Target(label="Submit", app="shop"))
    page = html(view)

    assert view.paths == ("a\nb", "c")
    assert view.target == (("label", "Submit"), ("app", "shop"))
    assert '<li><code class="said">a\nb</code></li>\n<li><code class="said">c</code></li>' in page


def test_times_are_those_of_the_reader_and_the_exact_one_is_at_hand() -> None:
    view = shown()
    asked = next(fact for fact in view.facts if fact.name == "asked")
    page = html(view)

    assert view.time_left == "7 d left, until Sun 8 Mar 13:00 CET."
    assert asked.said == "13:00 CET"
    assert (
        'title="2026-03-08 12:00:00Z" data-as="deadline">'
        "7 d left, until Sun 8 Mar 13:00 CET.</time>" in page
    )
    assert (
        '<time datetime="2026-03-01T12:00:00+00:00" title="2026-03-01 12:00:00Z" data-as="at">'
        in page
    )


def test_card_has_headings_of_the_level_that_its_page_wants_and_no_form() -> None:
    page = html(shown(), level=3)

    assert "<h3>exact text</h3>" in page
    assert not any(tag in page for tag in ("<h1", "<h2", "<form", "<button", "<input"))


def test_more_lines_than_anybody_reads_are_shown_without_colour() -> None:
    few, many = ("+a\n-b\n" * count for count in (MAX_LINES // 2, MAX_LINES))

    coloured, plain = (shown(context=context(diff=diff)).diffs[0] for diff in (few, many))

    assert (text_of(coloured), text_of(plain)) == (few, many)
    assert set(kinds_of(coloured)) == {"added", "removed", "same"}
    assert kinds_of(plain) == [""]


def test_more_diffs_than_anybody_reads_stay_in_the_context() -> None:
    view = shown(context=context(**{f"change{n}": DIFF for n in range(MAX_DIFFS + 1)}))

    assert len(view.diffs) == MAX_DIFFS
    assert text_of(view.words[-1]).startswith(f"change{MAX_DIFFS}:\n  --- a/x\n")


@given(st.text("+-@ab\n "), st.lists(st.integers(0, 30)))
def test_no_letter_is_lost_whatever_is_marked_and_coloured(text: str, edges: list[int]) -> None:
    whole = f"{DIFF}\n{text}"
    places = sorted({0, len(whole), *(edge for edge in edges if edge < len(whole))})
    pieces = [(whole[start:end], end % 2 == 0) for start, end in pairwise(places)]

    runs = _runs(whole, pieces)

    assert "".join(piece for run in runs for piece, _ in run.pieces) == whole
    assert all(run.kind != then.kind for run, then in pairwise(runs))


def test_the_page_says_where_a_command_runs() -> None:
    def folder(**fields: Any) -> list[str]:
        view = shown(type="run_shell", text="systemctl restart nginx", **fields)
        return [fact.said for fact in view.facts if fact.name == "folder"]

    assert folder(cwd="/srv/web") == ["/srv/web"]
    assert folder(cwd="app", project="web") == ["app in project web"]
    assert folder(project="web") == ["that of project web; the agent names none"]
    assert folder() == ["the agent names none"]
