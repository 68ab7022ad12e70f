"""The frame of every page that a link opens: templates, style sheet and security headers.

Pages are designed for phones first and follow the light or dark scheme. They use no script and load
nothing: the style sheet is inline.
"""

import base64
import hashlib
from importlib.resources import files
from typing import Final

from safetyd.html_templates import environment

_ASSETS: Final = files("safetyd.web") / "assets"
STYLE: Final = "".join((_ASSETS / name).read_text() for name in ("card.css", "link.css"))

_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

# The page loads nothing, runs nothing, cannot be framed, and posts forms only to us.
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

_ENCRYPTED: Final = {"Strict-Transport-Security": "max-age=31536000"}

_TEMPLATES: Final = environment("safetyd.web", begin="link")


def page_headers(public_url: str) -> dict[str, str]:
    """Return the headers of pages below this URL."""
    return HEADERS | (_ENCRYPTED if public_url.startswith("https:") else {})


def page(template: str, title: str, recipient: str = "", **values: object) -> str:
    """Render a template that extends `link_frame.html`."""
    made = _TEMPLATES.get_template(template)
    return made.render(title=title, recipient=recipient, style=STYLE, **values)
