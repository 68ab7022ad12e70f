"""What every page behind a link is made with: its templates, its looks, and what it forbids.

For a telephone first, light or dark as its owner likes it, without a script. A page is one answer:
its style is in it, and nothing else is fetched.
"""

import base64
import hashlib
from importlib.resources import files
from typing import Final

from safetyd.html_templates import environment

_ASSETS: Final = files("safetyd.web") / "assets"
STYLE: Final = "".join((_ASSETS / name).read_text() for name in ("card.css", "link.css"))

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

_TEMPLATES: Final = environment("safetyd.web", begin="link")


def page(template: str, title: str, recipient: str = "", **values: object) -> str:
    """Return a whole page of a template that extends `link_frame.html`."""
    made = _TEMPLATES.get_template(template)
    return made.render(title=title, recipient=recipient, style=STYLE, **values)
