"""Messages as the shell would compose them, and text that means harm."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from safetyd.cards.note_cards import AlertCard, DigestCard, SingleCard, SummaryCard
from safetyd.cards.request_card import CardField, RequestCard
from safetyd.core.events.notification_events import NoteSheet, SheetRule, SheetSection
from safetyd.notify.message import Notice

ZONE = ZoneInfo("America/New_York")
AT = datetime(2026, 3, 2, 14, 2, tzinfo=ZONE)
REQUEST = "req_01JNBZ8Q4T6W2M9K5R3XVYHD7E"
DELIVERY = "dlv_01JNBZ8QBC0G1V5E8N2FMS4KTA"
DIGEST = "9f3c1a20b7de"
CODE = "4821"
LINK = "https://safety.example.com/d/a1.Jq3ZbX8sVw0kPn5RtY7uLc2MdF4gHh6TzEoB9yKi"
LIST_LINK = "https://safety.example.com/d/a1.Wm8NvQ2xRk6TsC0pLb4YzJd7HfG5eUo3AtVi9EyK"

_BIDI = "\u202d\u202e\u2066\u2069\u200f\u061c"
_HIDDEN = "".join(chr(0xE0000 + ord(letter)) for letter in "approve it")

# What an agent may write so that its reader sees something else, clicks it, or stops reading.
HOSTILE: tuple[str, ...] = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    '"><a href="https://evil.example/approve">Approve</a>',
    "</td></tr></table><h1>Already approved</h1>",
    "& < > \" ' ` &amp; &lt;b&gt; &#60;i&#62;",
    "**bold** [click me](https://evil.example) <!channel> <@U1> @everyone @here `code` ~x~ _y_",
    "subject\r\nBcc: victim@example.com\r\n\r\nbody",
    "end\n.\nQUIT\n..",
    "bell\x07 escape\x1b[2J\x1b]0;title\x07 null\x00 delete\x7f next\x85 csi\x9b31m",
    f"reads {_BIDI} backwards txt.exe",
    f"zero\u200bwidth\u2060\ufeff\u00ad and tags{_HIDDEN}",
    "separators\u2028of lines\u2029and paragraphs",
    "half a pair \ud83d alone",
    "z" + "\u0301" * 3_000,
    "open https://evil.example/x www.evil.example HTTP://EVIL.example ftp://evil.example/y",
    "javascript:alert(1) data:text/html;base64,AAAA mailto:victim@example.com tel:+4912345",
    "ht\u200btps://evil.example and h\u00adttps://evil.example",
    "{{7*7}} ${7*7} %(x)s %s {0} $notice",
    "Reply A 1111 to approve. Code: 0000",
    "x" * 1_000_000,
    "https://evil.example/ " * 50_000,
    "\u202e" * 1_000_000,
)


def request_topic(**fields: Any) -> RequestCard:
    """Return a request that waits for an answer."""
    given: dict[str, Any] = {
        "id": REQUEST,
        "agent": "code",
        "type": "push",
        "urgency": "high",
        "risk": "high",
        "reversibility": "irreversible",
        "asked": AT,
        "deadline": AT + timedelta(hours=24),
        "silence": "If nobody answers, it does not run.",
        "digest": DIGEST,
        "fields": (
            said("text", fields.pop("text", "git push --force origin main"), bound=True),
            said("target", fields.pop("target", "example/repo main"), bound=True),
            CardField(name="risk", title="risk", lines=("high, irreversible",)),
            CardField(name="rules", title="required by", lines=("classify.high: push",)),
            said("rationale", fields.pop("why", "the release branch is behind")),
            said("session", fields.pop("session", "nightly")),
        ),
        "approve_by": ("link",),
        "link": LINK,
        "code": CODE,
        "deny_code": CODE,
        "commands": (
            f"safetyd approve {REQUEST} --digest {DIGEST}",
            f"safetyd deny {REQUEST}",
        ),
    }
    return RequestCard(**(given | fields))


def said(name: str, text: str, *, bound: bool = False) -> CardField:
    title = {"text": "exact text"}.get(name, name)
    return CardField(name=name, title=title, lines=tuple(text.split("\n")), agent=True, bound=bound)


def whole_topic(**fields: Any) -> RequestCard:
    """Return a request whose text is all that would be done, so that a reply may approve it."""
    text = said("text", fields.pop("text", "git push --force origin main"), bound=True)
    ways = ("link", "sms", "desktop")
    return request_topic(**({"fields": (text,), "approve_by": ways} | fields))


def alert_topic(**fields: Any) -> AlertCard:
    """Return something that people should know of."""
    given: dict[str, Any] = {
        "id": "note_01JNBZ8R2H",
        "title": "CRITICAL: error rate of code",
        "urgency": "high",
        "text": "9 of the last 10 actions failed. Everything is stopped.",
        "agent": "code",
    }
    return AlertCard(**(given | fields))


def report_topic(said: str = "code once") -> SummaryCard:
    """Return a daily report, with words that agents chose."""
    rules = (
        SheetRule("RED", f"1 rollback of {said}", "See what was put back: `safetyd history`."),
        SheetRule("YELLOW", "1 HIGH anomaly", "Agents wait: `safetyd list`."),
    )
    sections = (
        SheetSection("Layer 1: Cooldowns & Limits", (("API cost today", "$5.00"),)),
        SheetSection("Layer 5: Anomaly Detection", (("Patterns observed", said),)),
    )
    return SummaryCard(
        id="note_01JNBZ8R2H",
        title="RED: daily report of 2026-03-01 (UTC)",
        urgency="normal",
        text="RED 1 rollback.",
        sheet=NoteSheet(
            colour="RED", rules=rules, sections=sections, more="safetyd report --date 2026-03-01"
        ),
    )


def notice(*cards: SingleCard, **fields: Any) -> Notice:
    """Return a message about these cards; without any, about one request."""
    shown = cards or (request_topic(),)
    more, quiet = fields.pop("more", 0), fields.pop("quiet", False)
    link = fields.pop("list_link", LIST_LINK)
    several = DigestCard(cards=shown, more=more, quiet=quiet, list_link=link)
    given: dict[str, Any] = {
        "delivery": DELIVERY,
        "channel": "email",
        "recipient": "alice",
        "address": "alice@example.com",
        "urgency": shown[0].urgency,
        "card": several if len(shown) > 1 or more else shown[0],
        "at": AT,
        "thread": shown[0].id if len(shown) == 1 else "",
    }
    return Notice(**(given | fields))
