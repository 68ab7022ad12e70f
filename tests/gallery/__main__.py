"""Render every kind of message in every place: `make gallery ARGS="FOLDER push"`.

Mails become pictures at two widths, light and dark. Everything else becomes text.
"""

import sys
from collections.abc import Collection, Iterator
from html import escape
from pathlib import Path
from typing import Final

import anyio
import msgspec
from playwright.async_api import Browser

from safetyd.notify.channel import Preview
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.ntfy.channel import ended_publication
from safetyd.notify.slack.slack_message import written as slack
from safetyd.notify.telegram.telegram_message import written as telegram
from tests.gallery.gallery_examples import EXAMPLES, NotSent, ended
from tests.web.browser import PHONE, chromium, visitor

PLACES: Final = ("email", "sms", "desktop", "ntfy", "telegram", "slack", "team", "webhook")
WIDE: Final = (760, 600)
LOOKS: Final = {
    "wide-light": (WIDE, "light"),
    "wide-dark": (WIDE, "dark"),
    "phone-light": (PHONE, "light"),
    "phone-dark": (PHONE, "dark"),
}
_TABLES: Final = {
    "apprise": [{"name": "team", "url_file": "f"}],
    "sms": {"from": "+15550199"},
    "ntfy": {"url": "https://ntfy.sh/t", "include_code": True},
}
_INDEX: Final = """<!DOCTYPE html><meta charset="utf-8"><title>Messages of safetyd</title>
<style>body {{ font-family: sans-serif }} pre {{ white-space: pre-wrap; background: #eee;
max-width: 90ch; padding: 1em }} img {{ max-width: 48%; vertical-align: top }}</style>
<h1>Messages of safetyd</h1>
{}
"""


def previews(names: Collection[str]) -> Iterator[tuple[str, str, Preview]]:
    """Yield each example with its name and place. Some are not sent in every place."""
    tables = dict(msgspec.convert(_TABLES, NotificationsConfig).channels())
    for name in names:
        for place in PLACES:
            try:
                yield name, place, tables[place].preview(EXAMPLES[name](place))
            except NotSent:
                continue


def rewritten() -> Iterator[tuple[str, str]]:
    """Yield what messages say after their request was answered, by place."""
    yield "telegram", telegram(ended("telegram").notice, _no_data, ended("telegram").ends).text
    yield "slack", slack(ended("slack").notice, _no_data, ended("slack").ends).text
    published = ended_publication(ended("ntfy"), "topic")
    yield "ntfy", f"{published.title}\n\n{published.message}"


def _no_data(*_: str) -> str:
    return ""


async def gallery(folder: Path, names: Collection[str]) -> str:
    """Write the gallery to a folder. Return its index."""
    parts: list[str] = []
    async with chromium() as browser:
        for name, place, shown in previews(names):
            parts.append(f"<h2>{name} · {place} ({escape(shown.size)})</h2>")
            file = anyio.Path(folder / f"{name}.{place}.txt")
            await file.write_text(f"{shown.text}\n", encoding="utf-8")
            parts.append(f"<pre>{escape(shown.text)}</pre>")
            if shown.html:
                parts += await _pictures(browser, folder, name, shown.html)
    for place, text in rewritten():
        parts += (f"<h2>answered · {place}</h2>", f"<pre>{escape(text)}</pre>")
        await anyio.Path(folder / f"answered.{place}.txt").write_text(f"{text}\n", encoding="utf-8")
    return _INDEX.format("\n".join(parts))


async def _pictures(browser: Browser, folder: Path, name: str, page: str) -> list[str]:
    shown: list[str] = []
    for look, ((width, height), scheme) in LOOKS.items():
        screen = {"width": width, "height": height}
        async with visitor(browser, viewport=screen, color_scheme=scheme) as tab:
            await tab.set_content(page)
            file = f"{name}.{look}.png"
            await tab.screenshot(path=folder / file, full_page=True)
            shown.append(f'<img src="{file}" alt="{name}, {look}">')
    return shown


if __name__ == "__main__":
    target, *chosen = sys.argv[1:] or ["dist/gallery"]
    into = Path(target)
    into.mkdir(parents=True, exist_ok=True)
    index = anyio.run(gallery, into, chosen or list(EXAMPLES))
    (into / "index.html").write_text(index, encoding="utf-8")
    print(into / "index.html")
