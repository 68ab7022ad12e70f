"""The cost of pages: bytes for the browser, work for the daemon."""

from typing import Any, Final

import msgspec
import pytest

from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.policy import Policy
from safetyd.operators.contract.decision_contract import DecisionsAnswer
from safetyd.operators.contract.request_contract import PendingQuestion
from safetyd.operators.views.decision_view import row_of
from safetyd.operators.views.request_view import SLICE, pending, reviewed
from safetyd.operators.views.top_bar_view import top_bar
from safetyd.web.control_room.live_pages import LivePage
from safetyd.web.control_room.page_content import FED, PAGES, ROWS
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_pages import RoomPages, Shown
from safetyd.web.control_room.room_rendering import RoomRendering
from tests.core.approvals.queue_story import QueueStory, push
from tests.cost import ratio
from tests.story import at
from tests.web.control_room.room_site import Browser, RoomSite, addresses

PAGE_BYTES: Final = 250_000  # with all that it loads
FEW: Final = 2 * ROWS
MANY: Final = 30 * FEW
MOMENT: Final = Moment(at(MANY), float(MANY))
ROOMY: Final = Policy(
    approvals=ApprovalsConfig(max_pending_keyless=MANY, max_pending_bytes_keyless=1_000_000_000)
)
LIST: Final = PendingQuestion(limit=ROWS, grants=False)


def asking(count: int) -> Engine:
    """Return an engine of which so many agents have asked something."""
    engine = Engine(ROOMY)
    for number in range(count):
        engine.decide(push(number, agent=f"a{number}"))
    assert engine.approvals.pending_count() == count
    return engine


@pytest.fixture(scope="module")
def few() -> Engine:
    return asking(FEW)


@pytest.fixture(scope="module")
def many() -> Engine:
    return asking(MANY)


def test_a_page_of_the_list_costs_as_much_however_many_wait(few: Engine, many: Engine) -> None:
    growth = ratio(lambda: pending(many, MOMENT, LIST), lambda: pending(few, MOMENT, LIST))

    assert growth < 3


def test_the_queue_is_put_in_order_a_few_requests_at_a_time(many: Engine) -> None:
    asked = PendingQuestion(limit=ROWS, grants=False, sort="urgency")
    slices = reviewed(many, MOMENT, asked)
    next(slices)
    finished = [slices.send(MOMENT) for _ in range(MANY // SLICE)]

    assert set(finished) == {None}


def test_the_top_bar_costs_a_few_walks_over_the_agents_at_most(many: Engine) -> None:
    walks = ratio(lambda: top_bar(many, MOMENT), lambda: [*many.keys.agents.items()])

    assert walks < 20


def test_rows_of_a_list_say_what_may_be_granted_only_if_somebody_wants_to_know() -> None:
    story = QueueStory()
    story.asks(0, type="run_shell", text="git push --force origin main")

    (whole,) = pending(story.engine, MOMENT, PendingQuestion()).requests
    (plain,) = pending(story.engine, MOMENT, LIST).requests

    assert whole.grant
    assert plain == msgspec.structs.replace(whole, grant=msgspec.UNSET)


def feed_of(first: int) -> dict[str, Any]:
    """Return the content of the feed from event `first` on."""
    _, (decided, *_) = Engine(Policy()).decide(push(0, type="read_file", text="cat notes"))
    row = row_of(decided)
    assert row is not None
    rows = tuple(msgspec.structs.replace(row, seq=first + number) for number in range(FED))
    answer = DecisionsAnswer(ok=True, rows=rows, more=False, before=None, newest=first + FED)
    asked = {"params": {}, "here": "/feed?", "most": FED}
    return {**msgspec.structs.asdict(answer), **asked}


def shown(path: str) -> Shown:
    return RoomPages(PAGES).find(path)


def test_rows_of_the_feed_are_made_once() -> None:
    rendering = RoomRendering(RoomAssets(), ())
    bar = {"hold": {"level": "NORMAL"}, "problem": "", "pending": 0}
    known, news = feed_of(0), (feed_of(number * FED) for number in range(1, 100))

    def render(content: dict[str, Any]) -> object:
        return rendering.parts(shown("/feed"), bar, content, may_act=True)

    render(known)
    before = ratio(lambda: render(known), lambda: render(next(news)))

    assert before < 1 / 2


def test_a_part_is_encoded_once_for_all_and_again_only_if_it_changed() -> None:
    rendering = RoomRendering(RoomAssets(), ())
    page = LivePage(shown("/feed"))
    bar = {"hold": {"level": "NORMAL"}, "problem": "", "pending": 0}
    page.put(rendering.parts(page.shown, bar, feed_of(0), may_act=True))
    before = dict(page.messages)
    page.put(rendering.parts(page.shown, bar, feed_of(FED), may_act=True))

    assert [name for name, said in page.messages.items() if said is before[name]] == [
        "bar",
        "title",
    ]


async def test_no_page_weighs_more_than_a_slow_line_can_bear(
    site: RoomSite, alice: Browser
) -> None:
    for number in range(FED):
        site.proposes(f"d{number}", text="make the header of the settings page new " * 4)
    refs = [site.asks(f"p{number}", agent=f"a{number}") for number in range(ROWS)]
    assets = RoomAssets()
    loaded = [*assets.styles, *assets.scripts, assets.icon]
    files = [len((await alice.get(path)).text.encode()) for path in loaded]
    pages = {
        path: len((await alice.get(path)).text.encode())
        for path in addresses(refs[0], agent="a0", decision="p0")
    }

    assert min(files) > 0
    assert max(pages.values()) + sum(files) < PAGE_BYTES, pages


async def test_a_page_waits_for_the_operators_rate_limit(site: RoomSite, alice: Browser) -> None:
    site.limits.charge("alice", 0.71)  # ten seconds give back 0.5

    assert "EVERYTHING BLOCKED" not in (await alice.get("/")).bar
