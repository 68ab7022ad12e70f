"""What stands at `/`: what this is and where to look, as a page and as plain text.

It is the same for everybody and tells nothing of agents, people or the state of the daemon.
"""

from typing import Final

from safetyd.web.pages.page_frame import page

TITLE: Final = "A safetyd runs here"
ABOUT: Final = (
    "It decides which of an agent's proposed actions may run. This page is the same for everybody "
    "and shows none of them."
)
NOTHING: Final = "Nothing is here"
LINKS: Final = "If you were sent a message, open the link in it."
COMMANDS: Final = {
    "safetyd open": "the control room: see everything, answer, stop everything",
    "safetyd status": "how it is, what is stopped, and what needs you",
    "safetyd review": "read what waits for a person, and answer",
    "safetyd stop": "stop everything now",
    "safetyd doctor": "look for what is wrong, and say what to do",
    "safetyd docs": "all documents, and ready configurations",
}
PATHS: Final = {
    "/metrics": "for Prometheus",
    "/healthz": "whether a restart would help",
    "/readyz": "whether a proposal would be answered now",
    "/api/agent/safe-mode": "safe mode; it wants the operator's token",
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
    """Return the same for who does not ask for HTML, such as curl."""
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
    """Return what stands at `/` where only links are served, for anybody on the internet."""
    return page(
        "link_front.html", NOTHING, heading=NOTHING, paragraphs=(LINKS,), commands={}, paths={}
    )


def links_text() -> str:
    return f"{NOTHING}.\n{LINKS}\n"
