"""The table before several requests are answered at once."""

from typing import Any

from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Target
from safetyd.operators.views.request_view import card
from safetyd.web.control_room.page_content import PAGES, several
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_pages import RoomPages
from safetyd.web.control_room.room_rendering import RoomRendering
from safetyd.web.pages.request_card_view import plain_card
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

BAR = {"hold": {"level": "NORMAL"}, "problem": "", "pending": None}


async def test_an_agents_description_does_not_stand_for_what_would_be_done() -> None:
    queue = QueueStory()
    asked = queue.asks(
        0,
        type="delete_file",
        text="",
        description="reads the manual",
        paths=("/srv/ledger",),
        target=Target(url="https://bank.example/pay"),
    )
    request = queue.engine.approvals.find(asked.request_id or "")
    assert request is not None
    found = plain_card(card(queue.engine, Moment(at(100), 100.0), request))

    async def ask(_asked: object, **_fields: object) -> Any:
        return {"request": found}

    shown = RoomPages(PAGES).find(f"/answers?id={request.id}")
    assert shown is not None
    content = await several(ask, shown.params)  # type: ignore[arg-type]

    page = RoomRendering(RoomAssets(), ()).parts(shown, BAR, content, may_act=True).main

    assert "/srv/ledger" in page
    assert "https://bank.example/pay" in page
    assert "Exact text" not in page
