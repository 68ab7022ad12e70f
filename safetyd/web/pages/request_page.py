"""The card of a request or a set as a page, and the form that answers it."""

from typing import Final, NamedTuple

from safetyd.cards.request_card import request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.web.link_view import LinkView, NextRequest
from safetyd.web.pages.page_frame import page

ABOUT_CHARS: Final = 300
TYPED_CHARS: Final = 400  # characters of a comment; few enough for a form in any script


class FormDraft(NamedTuple):
    """The initial state of the form: the last problem, and the comment already typed."""

    nonce: str
    problem: str = ""
    words: str = ""
    focus: str = ""  # "a": focus the code field; "d": focus the Deny button


class NextLink(NamedTuple):
    """A link to another request of the same notification."""

    token: str
    words: str


def request_page(view: LinkView, draft: FormDraft) -> str:
    """Return the card of a request and the form that answers it."""
    card = request_card(view.request, view.zone, view.at)
    return page(
        "link_request.html",
        "Pending request",
        view.link.recipient,
        card=card,
        form=draft,
        held=_holding(view.holds),
        command="" if view.by_link else card.commands[0],
        paired=view.paired,
        relayed=view.relayed,
        most=TYPED_CHARS,
        count=0,
        next=next_link(view.next),
    )


def set_page(view: LinkView, draft: FormDraft) -> str:
    """Return the pending requests of a set, and the form that answers all or one of them."""
    alike, first = view.alike, view.rows[0].card
    parts = [member.parts for member in alike.members] if alike else [()]
    return page(
        "link_set.html",
        "Pending requests",
        view.link.recipient,
        card=alike.common if alike else first,
        heading=alike.title if alike else first.title,
        rows=list(zip(view.rows, parts, strict=True)),
        ended=view.ended,
        form=draft,
        held=_holding(view.holds),
        command="" if view.by_link else first.commands[0],
        paired=view.paired,
        relayed=view.relayed,
        most=TYPED_CHARS,
        count=len(view.rows) if alike else 0,
    )


def about(request: RequestDetails) -> str:
    """Return a short text that identifies a request for the reader."""
    said = request.proposal.text or request.proposal.description
    more = "" if len(said) <= ABOUT_CHARS else f" … ({len(said):,} characters)"
    return f"{request.agent}: {request.type}\n{said[:ABOUT_CHARS]}{more}".rstrip()


def next_link(found: NextRequest | None) -> NextLink | None:
    if found is None:
        return None
    more = f" ({found.more:,} more)" if found.more else ""
    return NextLink(found.token, f"Next: {found.agent}: {found.type}{more}")


def _holding(why: str) -> str:
    """Return the warning that an approval would not take effect yet."""
    return f"An approval takes effect only after this ends: {why.rstrip('.')}." if why else ""
