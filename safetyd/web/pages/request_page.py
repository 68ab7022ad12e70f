"""The card of a request as a page, and the form that answers it."""

from typing import Final, NamedTuple

from safetyd.cards.request_card import request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.web.link_view import LinkView, NextRequest
from safetyd.web.pages.page_frame import page

ABOUT_CHARS: Final = 300
TYPED_CHARS: Final = 400  # of a comment: in any script they fit into what a form may send


class FormDraft(NamedTuple):
    """How a form begins: what went wrong with it before, and what was typed into it."""

    nonce: str
    problem: str = ""
    words: str = ""
    focus: str = ""  # where a reader begins: "a" at the code, "d" at Deny


class NextLink(NamedTuple):
    """The way to another request of the same message."""

    token: str
    words: str


def request_page(view: LinkView, draft: FormDraft) -> str:
    """Return the card of a request and the form that answers it."""
    card = request_card(view.request, view.zone, view.at)
    return page(
        "link_request.html",
        "A request waits for you",
        view.link.recipient,
        card=card,
        form=draft,
        held=_holding(view.holds),
        command="" if view.by_link else card.commands[0],
        paired=view.paired,
        most=TYPED_CHARS,
        next=next_link(view.next),
    )


def about(request: RequestDetails) -> str:
    """Return in short what a request is about, so that its reader knows it again."""
    said = request.proposal.text or request.proposal.description
    more = "" if len(said) <= ABOUT_CHARS else f" … ({len(said):,} characters)"
    return f"{request.agent}: {request.type}\n{said[:ABOUT_CHARS]}{more}".rstrip()


def next_link(found: NextRequest | None) -> NextLink | None:
    if found is None:
        return None
    more = f" ({found.more:,} more)" if found.more else ""
    return NextLink(found.token, f"Next: {found.agent}: {found.type}{more}")


def _holding(why: str) -> str:
    """Say before anybody answers that an approval would not be the end of it."""
    return f"An approval is recorded and held until this ends: {why.rstrip('.')}." if why else ""
