"""What a browser calls itself, in a few words."""

import re
from typing import Final

from safetyd.console.terminal_text import plain

MAX_CHARS: Final = 40  # of what nobody knows

# Many say that they are others as well, so the first that is found is it.
_BROWSERS: Final = {
    "Edge": r"Edg(?:e|A|iOS)?/(\d+)",
    "Opera": r"OPR/(\d+)",
    "Samsung Internet": r"SamsungBrowser/(\d+)",
    "Firefox": r"(?:Firefox|FxiOS)/(\d+)",
    "Chrome": r"(?:HeadlessChrome|Chrome|Chromium|CriOS)/(\d+)",
    "Safari": r"Version/(\d+)[\d.]* .*Safari/",
}
_SYSTEMS: Final = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "macOS": "Macintosh",
    "ChromeOS": "CrOS",
    "Linux": "Linux",
}


def browser_name(said: str) -> str:
    """Return browser and system, such as Chrome 156 on Linux; of others the begin of its words."""
    for name, pattern in _BROWSERS.items():
        if found := re.search(pattern, said):
            system = next((known for known, word in _SYSTEMS.items() if word in said), "")
            return f"{name} {found[1]}{f' on {system}' if system else ''}"
    return plain(said, MAX_CHARS)
