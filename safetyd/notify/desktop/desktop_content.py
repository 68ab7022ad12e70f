"""The content of a desktop notification.

A notification is short. It has an Approve button only if it shows the whole action; the page that
Review opens and the terminal always show everything.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from safetyd.cards.note_cards import SingleCard
from safetyd.cards.request_card import RequestCard
from safetyd.core.messages.proposal import Urgency
from safetyd.core.text.visible_text import cut_to
from safetyd.notify.desktop.desktop_bus import DEFAULT, DesktopNotification
from safetyd.notify.message import Notice
from safetyd.notify.shortening import deadline_second, fitted, with_gist, with_short_names

MAX_SUMMARY: Final = 80
MAX_BODY: Final = 240
NAME_MOST: Final = 40  # of an agent, or of a type of action

Action = Literal["approve", "deny", "review"]
# A click on the notification itself means Review.
_BUTTONS: Final[dict[Action, tuple[str, str]]] = {
    "review": (DEFAULT, "Review"),
    "approve": ("approve", "Approve"),
    "deny": ("deny", "Deny"),
}


class DesktopNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the form in which a desktop shows it and a helper receives it."""

    delivery: str
    request_id: str = ""
    digest: str = ""
    summary: str
    body: str
    actions: tuple[Action, ...] = ()
    urgency: Urgency = "normal"
    link: str = ""
    recipient: str = ""

    @property
    def key(self) -> str:
        """The key of the notification; a reminder replaces the first message of its request."""
        return self.request_id or self.delivery

    def notification(self, *, review: bool) -> DesktopNotification:
        """Return the notification. `review` is True if a page can be opened."""
        offered = [action for action in self.actions if review or action != "review"]
        return DesktopNotification(
            self.key,
            self.summary,
            self.body,
            tuple(_BUTTONS[action] for action in offered),
            self.urgency,
            stays="deny" in offered and self.urgency != "low",
        )


def payload(notice: Notice) -> dict[str, object]:
    """Return the message for helpers, ready for JSON.

    Observers receive it too, so it contains no link. A helper that may answer asks for the link.
    """
    told: dict[str, object] = msgspec.to_builtins(rendered(notice))
    del told["link"]
    return told


def rendered(notice: Notice) -> DesktopNotice:
    """Return a message shortened for a desktop."""
    summary = _flat(notice.subject)
    body, cards = fitted(notice.changed(_on_lines), "desktop.txt", MAX_BODY)
    card = cards[0] if notice.single else None
    asked = isinstance(card, RequestCard) and bool(card.commands) and card.size == 1
    link = notice.single.link if notice.single else notice.list_link or _only(notice.cards)
    return DesktopNotice(
        delivery=notice.delivery,
        request_id=card.id if asked and card else "",
        digest=card.digest if asked and isinstance(card, RequestCard) else "",
        summary=summary,
        body=body,
        actions=tuple(_actions(card, link)),
        urgency=notice.urgency,
        link=link,
        recipient=notice.recipient,
    )


def _actions(card: SingleCard | None, link: str) -> Iterator[Action]:
    """Yield the buttons, with Approve only if the whole action is shown."""
    if link:
        yield "review"
    if isinstance(card, RequestCard) and card.size == 1 and card.commands and card.fields:
        if card.whole and "desktop" in card.approve_by:
            yield "approve"
        yield "deny"


def _on_lines(card: SingleCard) -> SingleCard:
    """Return a card in which an agent's line cannot imitate safetyd's own lines."""
    if isinstance(card, RequestCard):
        card = with_gist(card)
        fields = tuple(
            replace(field, lines=(_flat(field.text),)) for field in deadline_second(card.fields)
        )
        agent, type_ = cut_to(card.agent, NAME_MOST), cut_to(_flat(card.type), NAME_MOST)
        return with_short_names(replace(card, fields=fields), agent, type_)
    return replace(card, text=_flat(card.text))


def _only(cards: tuple[SingleCard, ...]) -> str:
    """Return the link if there is exactly one, or an empty string."""
    found = [card.link for card in cards if card.link]
    return found[0] if len(found) == 1 else ""


def _flat(text: str) -> str:
    """Return text on one line, so that an agent cannot imitate safetyd's own lines."""
    return text.replace("\n", " ⏎ ")
