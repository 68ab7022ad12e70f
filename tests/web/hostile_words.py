"""Words that would act if a page took them for more than words, and a page that is watched."""

from typing import Final

from playwright.async_api import Page

# Each runs, loads or sends something if a page takes it for more than words.
HOSTILE: Final = (
    "</pre><script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    "'><iframe srcdoc='<script>top.ran=1</script>'></iframe>",
    "</title></style><style>body{display:none}</style>",
    "<form action=https://evil.example><button>Approve</button></form>",
    '<base href="https://evil.example/"><link rel=stylesheet href=//evil.example/x.css>',
    '<meta http-equiv=refresh content="0;url=https://evil.example/">',
    '<a href="javascript:window.ran=1" autofocus onfocus=window.ran=1>x</a>',
    "{{ 7 * 7 }} {% include 'link_bar.html' %} {# x #}",
    "<!--</textarea><details open ontoggle=window.ran=1>",
    '" style="position:fixed;inset:0" onmouseover="window.ran=1',
)
# Counts what a page's policy forbids, whatever it is.
WATCH: Final = """
window.ran = 0; window.forbidden = [];
document.addEventListener('securitypolicyviolation',
  found => window.forbidden.push(found.violatedDirective + ' ' + found.blockedURI));
"""


class Watched:
    """A page, and all that it does beside showing words."""

    def __init__(self, page: Page, own: str) -> None:
        self.page = page
        self.own = own
        self.done: list[str] = []
        page.on("dialog", lambda found: self.done.append(f"dialog {found.message}"))
        page.on("console", lambda found: self.done.append(f"console {found.text}"))
        page.on("pageerror", lambda found: self.done.append(f"error {found}"))
        page.on("request", lambda found: self._asked(found.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(self.own):
            self.done.append(f"request {url}")

    async def opens(self, path: str) -> list[str]:
        await self.page.goto(f"{self.own}{path}")
        return await self.after()

    async def after(self) -> list[str]:
        """Return what the page did since the last call, and violations of its policy."""
        ran: int = await self.page.evaluate("window.ran")
        forbidden: list[str] = await self.page.evaluate("window.forbidden")
        done = [*self.done, *forbidden, *(["it ran"] if ran else [])]
        self.done.clear()
        return done
