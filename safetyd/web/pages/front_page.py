"""The page at `/` for visitors who are not signed in, as HTML and plain text.

It is the same for everyone and reveals nothing about agents, operators or the daemon's state.
"""

from typing import Final

from safetyd.web.pages.page_frame import page

TITLE: Final = "safetyd is running"
ABOUT: Final = "It decides which actions of AI agents may run. This page shows none of them."
NOTHING: Final = "Nothing here"
LINKS: Final = "If you received a notification, open the link in it."
COMMANDS: Final = {
    "safetyd open": "open the control room",
    "safetyd status": "show the state and problems that need attention",
    "safetyd review": "review pending requests",
    "safetyd stop": "stop everything now",
    "safetyd doctor": "find problems and how to fix them",
    "safetyd docs": "read the documentation",
}
PATHS: Final = {
    "/metrics": "Prometheus metrics",
    "/healthz": "liveness",
    "/readyz": "readiness",
    "/api/agent/safe-mode": "safe mode (needs the operator's token)",
}


def front_page() -> str:
    return page(
        "link_front.html",
        "safetyd",
        heading=TITLE,
        paragraphs=(ABOUT, LINKS),
        commands=COMMANDS,
        paths=PATHS,
    )


def front_text() -> str:
    """Return the page as plain text, for clients such as curl."""
    width = max(map(len, (*COMMANDS, *PATHS)))
    commands = (f"  {name:<{width}}  {says}" for name, says in COMMANDS.items())
    paths = (f"  {path:<{width}}  {says}" for path, says in PATHS.items())
    return "\n".join(
        (
            *(f"{TITLE}.", ABOUT, LINKS, ""),
            *("In a terminal on this machine:", *commands, ""),
            *("For programs:", *paths, ""),
        )
    )


def links_page() -> str:
    """Return the page at `/` of the listener that serves only links."""
    return page(
        "link_front.html", NOTHING, heading=NOTHING, paragraphs=(LINKS,), commands={}, paths={}
    )


def links_text() -> str:
    return f"{NOTHING}.\n{LINKS}\n"
