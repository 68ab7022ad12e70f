"""The page of a link after the approved action ran."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from safetyd.clock import Clock
from safetyd.core.events.history_events import Committed
from safetyd.extras.file_history.service.histories import Histories
from safetyd.extras.file_history.service.history_service import HistoryService
from safetyd.journal.mailbox import Mailbox
from safetyd.operators.contract.history_contract import CommitAnswer, CommitQuestion
from tests.extras.file_history.project_folder import ProjectFolder
from tests.extras.file_history.service.history_rig import project
from tests.story import at
from tests.web.link_site import LinkSite

DAY_S = 86_400.0


class ChangedSite(LinkSite):
    """Decision links of a daemon that keeps the history of a shop."""

    def __init__(self, directory: Path) -> None:
        super().__init__(ask=self._asked)
        self.folder = ProjectFolder(directory)
        projects = {"shop": project(self.folder.root)}
        # Where the folder keeps its own.
        histories = Histories(directory, projects)
        histories._known["shop"] = self.folder.history
        self._service = HistoryService(histories, Mailbox(), Clock())
        self.asked_by: list[str] = []

    async def _asked(self, by: str, question: CommitQuestion) -> CommitAnswer:
        self.asked_by.append(by)
        return await self._service.commit(question)

    def changes(self, text: str) -> str:
        """Let an approved action change a file; return the token of its request."""
        request = self.asks(wait=True)
        token = self.tells(request)
        self.queue.answers(5, request, waits=True)
        self.folder.write("cart.py", text)
        commit = self.folder.commit(id="p1").commit
        about: dict[str, Any] = {"project": "shop", "agent": "code", "id": "p1", "why": "after"}
        self.queue.happens(Committed(at=at(6), t=6.0, commit=commit, **about))
        return token


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ChangedSite]:
    site = ChangedSite(tmp_path)
    async with site.at_work():
        yield site


async def test_the_link_of_an_approved_action_shows_its_changes(site: ChangedSite) -> None:
    token = site.changes("<b>new</b>\n")

    looked = await site.get(token)
    denied = await site.post(token, "deny")

    assert (looked.status, denied.status) == (200, 409)
    for page in (looked, denied):
        assert "Already approved by you" in page.text
        assert '<span class="line added">+&lt;b&gt;new&lt;/b&gt;</span>' in page.text
    assert set(site.asked_by) == {"alice by link"}


async def test_a_link_that_is_too_old_says_how_it_ended_and_shows_no_diff(
    site: ChangedSite,
) -> None:
    token = site.changes("new\n")
    site.clock.t = 30 * DAY_S

    page = await site.get(token)

    assert "Already approved by you" in page.text
    assert "What it changed" not in page.text
    assert site.asked_by == []


async def test_where_the_history_is_gone_the_page_says_so(site: ChangedSite) -> None:
    token = site.changes("new\n")
    site.folder.bare.rename(site.folder.bare.with_name("gone"))

    page = await site.get(token)

    assert page.status == 200
    assert "The changes cannot be shown: " in page.text
    assert "is not a commit of this project" in page.text
    assert "safetyd history diff" in page.text


async def test_a_request_that_changed_nothing_shows_nothing(site: ChangedSite) -> None:
    request = site.asks(wait=True)
    token = site.tells(request)
    site.queue.answers(5, request, waits=True)

    assert "What it changed" not in (await site.get(token)).text
