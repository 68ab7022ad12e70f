"""The text of the request page, in one file: `request_page.txt`."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from tests.cards.card_story import context
from tests.snapshot import check_snapshot
from tests.story import stop
from tests.web.control_room.room_site import Browser, RoomSite

SNAPSHOT: Final = Path(__file__).with_name("request_page.txt")
INLINE: Final = {"a", "abbr", "b", "code", "em", "kbd", "option", "span", "strong", "time"}


class VisibleText(HTMLParser):
    """The text of a page: a line for each block, and buttons in brackets."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._text = ""
        self.feed(html)
        self.close()

    def __str__(self) -> str:
        lines = (" ".join(line.split()) for line in self._text.splitlines())
        return "\n".join(line for line in lines if line)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") not in {None, "hidden", "search"}:
            self._text += f" [{given['type']} {given.get('value', '')}] "
        elif tag not in INLINE and tag != "input":
            self._text += "\n[" if tag == "button" else "\n"

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._text += " "
        elif tag not in INLINE:
            self._text += "]\n" if tag == "button" else "\n"

    def handle_data(self, data: str) -> None:
        self._text += data


async def test_the_request_page_reads_as_its_snapshot(
    site: RoomSite, alice: Browser, eve: Browser
) -> None:
    command = site.asks(
        "p1",
        type="run_shell",
        text="git push --force origin main",
        project="shop",
        cwd="/srv/shop",
        cost_usd=1.25,
        rationale="The fix is wanted in today's release.",
        urgency="high",
    )
    edit = site.asks("p2", type="send_mail", text="", context=context(to="bob@example.com"))
    terminal = site.asks("p3", type="purchase", text="12 months of hosting")
    shown = {
        "a command": await alice.get(f"/requests/{command}"),
        "another action": await alice.get(f"/requests/{edit}"),
        "only at a terminal": await alice.get(f"/requests/{terminal}"),
        "an observer": await eve.get(f"/requests/{command}"),
    }
    await alice.post("/requests", do="deny", id=command, words="Not on a Friday")
    shown["denied"] = await alice.get(f"/requests/{command}")
    site.happens(stop(site.clock.t))
    shown["while everything is stopped"] = await alice.get(f"/requests/{edit}")

    texts = (
        f"==== {name}\n{VisibleText(f'<main{page.main}</main>')}\n" for name, page in shown.items()
    )
    check_snapshot(SNAPSHOT, "\n".join(texts))
