"""Sanitize the text of agents: limit its length, and remove hidden characters and links.

Control characters and text direction marks are removed. Other invisible characters are replaced by
their count. Addresses are rewritten (hxxps://example[.]com) so that no program turns them into
links. Sanitizing a sanitized text does not change it.
"""

import re
import unicodedata
from typing import Final, NamedTuple

from safetyd.core.text.visible_text import BLANK

MAX_CHARS: Final = 500
SPARED: Final = 40  # a text is cut only if it exceeds its limit by more than this
MAX_MARKS: Final = 4  # combining marks in a row; no language needs more

_AHEAD: Final = 4  # sanitize this many times the limit, because characters may be removed

# Blank letters, format characters, surrogates, noncharacters and tags.
_UNSEEN: Final = (
    f"{BLANK}\u00ad\u070f\u200b\u2060-\u2065\u206a-\u206f"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_LOOKS: Final = "\ufe0e\ufe0f"  # select the text or emoji style of the previous character
_JOINERS: Final = "\u200c\u200d"  # join emoji, and letters of some scripts
_SEEN: Final = rf"[^\x00-\x7f{_UNSEEN}{_LOOKS}{_JOINERS}]"

_line_ends = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]").sub
_vanishing = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+"
).sub
_spaces = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]").sub
_many_empty_lines = re.compile(r"\n(?:[ ]*\n){3,}").sub
_unseen = re.compile(
    rf"((?<={_SEEN})(?:[{_LOOKS}]?[{_JOINERS}](?={_SEEN})|[{_LOOKS}])"
    rf"|(?<=[0-9#*])\ufe0f(?=\u20e3))|[{_UNSEEN}{_LOOKS}{_JOINERS}]+"
).sub

# Programs turn names with these top-level domains into links even without https://. Those that are
# more often file extensions or names in code are left out.
_ENDINGS: Final = (
    "ai|biz|br|click|cn|co|com|de|dev|edu|eu|fr|gov|info|io|mil|net|nl|online|org|ru|shop|uk|xyz"
)
_SCHEMES: Final = "about|blob|data|file|geo|intent|javascript|magnet|mailto|sms|tel|vbscript"
_web = re.compile(r"http(s?)(?=://)", re.IGNORECASE).sub
_other = re.compile(r"(?<!hxxp)(?<!hxxps):(?=//)").sub
_scheme = re.compile(rf"\b({_SCHEMES}):(?=\S)", re.IGNORECASE).sub
_host = re.compile(r"(?<=//)[^\s/]+|\bwww\.[^\s/]*", re.IGNORECASE).sub
_dots = re.compile(r"(?<!\[)\.(?=\w)").sub
_mail = re.compile(r"(?<=\w)@[\w.-]*\.[a-z]{2}[\w.-]*", re.IGNORECASE).sub
_bare = re.compile(rf"(?<=[\w-])\.(?=(?:{_ENDINGS})(?![\w(=-])|[a-z]{{2,24}}/)", re.IGNORECASE).sub


class Sanitized(NamedTuple):
    text: str
    cut: int  # the number of characters left out


def harmless(text: str, limit: int = MAX_CHARS) -> Sanitized:
    """Return at most `limit` characters of a text, sanitized. Line breaks are preserved."""
    taken = min(len(text), limit * _AHEAD)
    shown = _clean(text[:taken])
    while len(shown) > limit:
        taken = taken * limit // len(shown)
        shown = _clean(text[:taken])
    return Sanitized(shown, len(text) - taken)


def harmless_nearly(text: str, limit: int) -> Sanitized:
    """Return about `limit` characters of a text; slightly longer texts are not cut."""
    whole = harmless(text, limit + SPARED)
    return harmless(text, limit) if whole.cut else whole


def one_line(text: str, limit: int) -> str:
    """Return a text on one line of at most `limit` characters; an ellipsis marks a cut."""
    shown, cut = harmless(text, limit * 2)
    line = " ".join(shown.split())
    if not cut and len(line) <= limit:
        return line
    return f"{line[: limit - 1].rstrip()}…"


def _clean(text: str) -> str:
    text = _line_ends("\n", text).expandtabs(4)
    text = _spaces(" ", _vanishing("", text))
    # Limit marks before normalizing too, because normalizing many marks takes quadratic time.
    text = _few_marks(unicodedata.normalize("NFC", _few_marks(text)))
    return _without_links(_many_empty_lines("\n\n\n", _unseen(_counted, text)))


def _few_marks(text: str) -> str:
    if text.isascii():
        return text
    kept, run = [], 0
    for char in text:
        run = run + 1 if unicodedata.category(char) in {"Mn", "Me"} else 0
        if run <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)


def _counted(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    return f"[{len(found[0])} unseen]"


def _without_links(text: str) -> str:
    text = _web(lambda found: f"hxxp{found[1].lower()}", text)
    text = _scheme(r"\1[:]", _other("[:]", text))
    return _bare("[.]", _mail(_dotless, _host(_dotless, text)))


def _dotless(found: re.Match[str]) -> str:
    return _dots("[.]", found[0])
