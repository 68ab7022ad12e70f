"""What every page is made of: its frame, and text in which everything can be seen."""

from html import escape

from safetyd.web.pages.style import STYLE
from safetyd.web.pages.visible import pieces


def page(title: str, body: str, recipient: str = "") -> str:
    """Return a whole page around a body that is HTML already."""
    reader = f" for {seen(recipient)}" if recipient else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><header>safetyd{reader}</header><main>{body}</main></body></html>\n"
    )


def seen(text: object) -> str:
    """Return any text as HTML in which everything can be seen."""
    parts = ((escape(part), hidden) for part, hidden in pieces(str(text)))
    return "".join(f'<span class="odd">{part}</span>' if hidden else part for part, hidden in parts)


def notice(said: str) -> str:
    return f'<p class="notice bad">{seen(said)}</p>' if said else ""


def nonce_field(nonce: str) -> str:
    return f'<input type="hidden" name="n" value="{escape(nonce)}">'
