from collections.abc import Callable

from safetyd.web.control_room.live_pages import MAX_OF_ONE, MAX_OPEN, LivePage, LivePages, View
from safetyd.web.control_room.page_content import PAGES
from safetyd.web.control_room.room_pages import RoomPages
from safetyd.web.control_room.room_rendering import Parts


async def never(
    _page: LivePage,
    _may_act: bool,  # noqa: FBT001 - of a view
) -> Callable[[], Parts]:
    raise AssertionError


async def test_one_browser_cannot_take_the_live_pages_of_all_others() -> None:
    live = LivePages(never)
    shown = RoomPages(PAGES).find("/feed")
    assert shown is not None

    for number in range(MAX_OF_ONE):
        assert not live.full("thief")
        live.join(View(f"/feed?text={number}", may_act=True), shown, "thief")

    assert live.full("thief")
    assert not live.full("ann")
    live.leave(View("/feed?text=0", may_act=True), "thief")
    assert not live.full("thief")


async def test_all_browsers_together_are_bounded() -> None:
    live = LivePages(never)
    shown = RoomPages(PAGES).find("/")
    assert shown is not None
    view = View("/", may_act=True)

    for number in range(MAX_OPEN):
        live.join(view, shown, f"browser {number}")

    assert live.full("one more")
