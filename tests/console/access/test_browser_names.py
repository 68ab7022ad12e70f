"""A browser is named in a few words, whatever it says besides."""

import pytest

from safetyd.console.access.control_room import MAX_CHARS, browser_name

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
LINUX, WINDOWS = "Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (f"{LINUX} {WEBKIT} Chrome/156.0.0.0 Safari/537.36", "Chrome 156 on Linux"),
        (f"{LINUX} {WEBKIT} HeadlessChrome/151.0.1 Safari/537.36", "Chrome 151 on Linux"),
        (f"{WINDOWS} {WEBKIT} Chrome/156.0 Safari/537.36 Edg/156.0.1", "Edge 156 on Windows"),
        (f"{WINDOWS} Gecko/20100101 Firefox/145.0", "Firefox 145 on Windows"),
        (f"{MAC} AppleWebKit/605.1.15 Version/18.1 Safari/605.1.15", "Safari 18 on macOS"),
        (f"{PHONE} (KHTML, like Gecko) CriOS/156.0 Mobile Safari/604.1", "Chrome 156 on iPhone"),
        (
            f"Mozilla/5.0 (Linux; Android 15) {WEBKIT} Chrome/156.0 Mobile Safari/537.36",
            "Chrome 156 on Android",
        ),
        ("Firefox/145.0", "Firefox 145"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", ""),
    ],
)
def test_browser_and_system_are_named(said: str, name: str) -> None:
    assert browser_name(said) == name


def test_what_nobody_knows_is_cut_and_harmless() -> None:
    assert browser_name("x" * 200).startswith("x" * MAX_CHARS + "…")
    assert "\x1b" not in browser_name("\x1b]0;owned")
