"""What every page is made of: its frame and looks, times, and text in which everything is seen.

For a telephone first, light or dark as its owner likes it, without a script. What of an agent's
words would not be seen, or would turn the line around, is spelt out.
"""

import base64
import hashlib
from datetime import datetime, tzinfo
from html import escape
from typing import Final

from safetyd.core.text.time_words import complete, near
from safetyd.core.text.visible_text import pieces

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --words: #f4f6f8;
  --yes: #1a7f37; --no: #b42318; --warn: #9a6700; --odd: #ffe2e0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --ink: #e8ecf0; --soft: #9aa5b1; --line: #343b44; --words: #1d232a;
    --yes: #2c8f47; --no: #c93c31; --warn: #d8a03a; --odd: #5a2320;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 44rem; padding: 1rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
header { color: var(--soft); font-size: .85rem; }
h1 { font-size: 1.35rem; line-height: 1.25; margin: .25rem 0 .5rem; }
h2 {
  font-size: .8rem; letter-spacing: .02em; color: var(--soft);
  font-weight: 600; margin: 1.1rem 0 .3rem;
}
p { margin: .5rem 0; }
pre {
  margin: 0; padding: .6rem .75rem; border-left: .25rem solid var(--line); border-radius: .25rem;
  background: var(--words); overflow: auto; max-height: 50vh; white-space: pre-wrap;
}
pre, code { font: .9rem/1.45 ui-monospace, monospace; }
code.line {
  display: block; padding: .5rem .75rem; background: var(--words);
  overflow-x: auto; white-space: pre;
}
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem .9rem; margin: .75rem 0; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; }
ul { list-style: none; margin: 0; padding: 0; }
li { padding: .5rem 0; border-top: 1px solid var(--line); }
li:first-child { border-top: 0; }
a { color: inherit; }
.tag {
  display: inline-block; padding: 0 .5rem; border: 1px solid currentColor; border-radius: 1rem;
  font-size: .8rem; margin-right: .3rem;
}
.high, .prohibited, .bad { color: var(--no); }
.warn { color: var(--warn); }
.good { color: var(--yes); }
.soft { color: var(--soft); font-size: .9rem; }
.notice { border: 2px solid currentColor; border-radius: .4rem; padding: .6rem .75rem; }
mark { background: none; color: inherit; text-decoration: underline 2px var(--no); }
.odd { background: var(--odd); border-radius: .2rem; font-family: ui-monospace, monospace; }
form { margin-top: 1.25rem; padding-top: 1rem; border-top: 2px solid var(--line); }
label { display: block; margin: .75rem 0 .25rem; }
input, textarea {
  width: 100%; padding: .6rem .75rem; font: inherit; color: inherit;
  background: var(--paper); border: 1px solid var(--soft); border-radius: .4rem;
}
input { max-width: 12rem; font-size: 1.3rem; letter-spacing: .15em; }
.buttons { display: flex; gap: .75rem; margin-top: 1rem; }
button {
  flex: 1; min-height: 3rem; font: inherit; font-weight: 600; color: #fff;
  border: 0; border-radius: .4rem; background: var(--soft); cursor: pointer;
}
button.yes { background: var(--yes); }
button.no { background: var(--no); }
:focus-visible { outline: 3px solid #4493f8; outline-offset: 2px; }
"""

_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

# Nothing is loaded, nothing runs, nobody may frame it, and forms go nowhere else.
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}


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


def moment(at: datetime | str, zone: tzinfo, now: datetime) -> str:
    """Return a time in a zone, with its day if that is not today."""
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    there = known.astimezone(zone)
    return f"{near(there, now.astimezone(zone))} {there:%Z}"


def ago(at: datetime | str, now: datetime) -> str:
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{complete((now - known).total_seconds())} ago"
