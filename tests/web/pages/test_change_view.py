from typing import Any

import pytest

from safetyd.html_templates import environment
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.contract.history_contract import CommitAnswer, CommitQuestion
from safetyd.operators.replies import CommandRefused
from safetyd.web.pages.change_view import MAX_LINES, ChangeView, change_view
from tests.web.hostile_words import HOSTILE

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"


async def view(diff: str | Exception, *, linked: bool = True, project: str = "shop") -> ChangeView:
    async def ask(question: CommitQuestion) -> CommitAnswer:
        assert question == CommitQuestion(commit="4f2a91c07777aa", project=project)
        if isinstance(diff, Exception):
            raise diff
        return CommitAnswer(ok=True, project=project, commit=question.commit, message="", diff=diff)

    return await change_view(ask, project, "4f2a91c07777aa", linked=linked)


async def page(diff: str | Exception, **options: Any) -> str:
    template = environment("safetyd.web", begin="card/").get_template("card/change.html")
    return template.render(change=await view(diff, **options))


async def test_a_diff_has_its_colours_and_leads_to_its_commit() -> None:
    shown = await page(DIFF)

    assert '<span class="line removed">-old\n</span><span class="line added">+new</span>' in shown
    assert '<a href="/history/4f2a91c07777aa?project=shop">Commit 4f2a91c07777</a> of shop' in shown
    assert "safetyd history diff" not in shown


async def test_behind_a_link_there_is_no_way_to_the_control_room() -> None:
    shown = await page(DIFF, linked=False)

    assert "Commit 4f2a91c07777 of shop" in shown
    assert "href" not in shown


async def test_a_long_diff_is_cut_with_the_command_that_shows_all_of_it() -> None:
    shown = await page("+line\n" * (MAX_LINES + 1), project="my shop")

    assert shown.count("+line") == MAX_LINES
    assert "1 more line. To see all:" in shown
    assert "safetyd history diff 4f2a91c07777 --project &#39;my shop&#39;" in shown
    assert "more line" not in await page("+line\n" * MAX_LINES)


@pytest.mark.parametrize(
    "why", [CommandRefused("not_found", "it is <b>gone</b>"), Unanswered("it is <b>gone</b>")]
)
async def test_a_diff_that_cannot_be_read_says_why_and_what_to_type(why: Exception) -> None:
    shown = await page(why)

    assert "The changes cannot be shown: it is &lt;b&gt;gone&lt;/b&gt;." in shown
    assert "safetyd history diff 4f2a91c07777 --project shop" in shown


@pytest.mark.parametrize("words", [*HOSTILE, "\x1b]0;x\x07", "\u202etxt"])
async def test_a_hostile_line_of_a_diff_is_only_words(words: str) -> None:
    shown = await page(f"@@ -0,0 +1 @@\n+{words}\n")

    box = shown.partition('<pre class="said">')[2].partition("</pre>")[0]
    assert box.count("<") == box.count("<span") + box.count("</span")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
