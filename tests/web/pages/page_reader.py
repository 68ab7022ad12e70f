"""Parses a page, and builds views of links."""

from html.parser import HTMLParser

from safetyd.core.events.event import Moment
from safetyd.notify.links.sent_links import SentLink
from safetyd.notify.links.tokens import Signer
from safetyd.web.link_view import LinkView, look
from tests.core.approvals.queue_story import QueueStory
from tests.story import at
from tests.web.link_site import KEY

VOID = {"meta", "input", "br"}
# Between the parts of these are line ends that nobody sees.
STRUCTURE = {"html", "head", "body", "main", "form", "ul", "ol", "li", "dl", "div"}


class Reader(HTMLParser):
    """Takes a page apart as a browser does."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.boxes: list[str] = []
        self._open: list[str] = []
        self._box = 0  # how deep the box is that is open, if one is
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)
        if ("class", "said") in attrs:
            self.boxes.append("")
            self._box = len(self._open)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if len(self._open) < self._box:
            self._box = 0

    def handle_data(self, data: str) -> None:
        between = not data.strip() and set(self._open[-1:]) <= STRUCTURE
        if "style" in self._open or between:
            return
        self.text += data
        if self._box:
            self.boxes[-1] += data


def view(queue: QueueStory, request_id: str | None, t: float = 100.0) -> LinkView:
    link = SentLink("dlv_1", request_id or "", "alice", "email", at(0), ())
    return look(queue.engine, Moment(at(t), t), link, Signer([KEY]))
