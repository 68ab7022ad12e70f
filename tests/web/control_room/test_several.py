"""The table before several requests are answered at once."""

from typing import Any

from safetyd.core.messages.proposal import Target
from safetyd.operators.contract.request_contract import RequestAnswer
from safetyd.web.control_room.page_content import PAGES, several
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_pages import RoomPages
from safetyd.web.control_room.room_rendering import RoomRendering
from tests.cards.card_story import asked

BAR = {"hold": {"level": "NORMAL"}, "problem": "", "pending": None}


async def test_an_agents_description_does_not_stand_for_what_would_be_done() -> None:
    found = asked(
        type="delete_file",
        text="",
        description="reads the manual",
        paths=("/srv/ledger",),
        target=Target(url="https://bank.example/pay"),
    )

    async def ask(_question: object) -> Any:
        return RequestAnswer(ok=True, request=found)

    shown = RoomPages(PAGES).find(f"/answers?id={found.id}")
    assert shown is not None
    content = await several(ask, shown.params)

    page = RoomRendering(RoomAssets(), ()).parts(shown, BAR, content, may_act=True).main

    assert "/srv/ledger" in page
    assert "https://bank.example/pay" in page
    assert "no exact text given" in page
