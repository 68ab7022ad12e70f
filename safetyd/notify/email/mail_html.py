"""A mail as a page: tables and inline styles, since old programs know nothing else.

Nothing is fetched and nothing runs. The styles in the head only add a dark look where the reader's
program knows of such. Words get into the page through `e` and in no other way.
"""

import html
from collections.abc import Iterable
from typing import Final

from safetyd.notify.email.mail_content import (
    approving,
    commands,
    exactly,
    facts,
    headline,
    named,
    small_print,
    terms,
    uncut,
    until,
)
from safetyd.notify.message import Notice, Topic

_SANS: Final = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
_MONO: Final = "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace"
_BREAK: Final = "word-break:break-word;overflow-wrap:anywhere"
_INK, _DIM, _LINE, _RED = "#1d2129", "#5c6773", "#d9dee3", "#b3261e"
_DARK: Final = """
:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  .back { background: #101317 !important; }
  .card { background: #1a1e23 !important; border-color: #333a42 !important; }
  .ink { color: #e8ebee !important; }
  .dim { color: #a3adb8 !important; }
  .box { background: #101317 !important; border-color: #c98a1b !important; }
  .line { border-color: #333a42 !important; }
  .plain { color: #8ab4f8 !important; }
  .high { color: #ff8a80 !important; }
}"""
_TABLE: Final = '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0"'


def page(notice: Notice) -> str:
    """Return a message that holds no more than its privacy allows, as HTML."""
    single = notice.single
    body = _several(notice) if single is None else _one(notice, single)
    return _DOCUMENT.format(title=e(headline(notice)), dark=_DARK, body=_card(notice, body))


def e(words: str) -> str:
    return html.escape(words, quote=True)


_DOCUMENT: Final = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<meta name="format-detection" content="telephone=no, date=no, address=no, email=no, url=no">
<title>{{title}}</title>
<style>{{dark}}
</style>
</head>
<body class="back" style="margin:0;padding:0;background:#eef1f4;-webkit-text-size-adjust:100%">
{_TABLE} class="back" style="background:#eef1f4">
<tr><td align="center" style="padding:16px 8px">
{{body}}
</td></tr></table>
</body>
</html>
"""


def _card(notice: Notice, body: Iterable[str]) -> str:
    top = _mark(notice) + _block(
        e(headline(notice)), f"font-size:21px;line-height:1.3;font-weight:600;color:{_INK}", "ink"
    )
    print_ = "<br>".join(map(e, small_print(notice)))
    return (
        f'{_TABLE} class="card" style="max-width:600px;background:#ffffff;'
        f'border:1px solid {_LINE};border-radius:10px;{_SANS};text-align:left">\n'
        f'<tr><td style="padding:20px 18px">\n{top}{"".join(body)}'
        f"{_line(notice.reach)}{_terminal(notice)}"
        f'<div class="dim line" style="margin-top:24px;padding-top:12px;'
        f'border-top:1px solid {_LINE};font-size:12px;line-height:1.5;color:{_DIM}">{print_}</div>'
        "\n</td></tr></table>"
    )


def _mark(notice: Notice) -> str:
    high = f' <b class="high" style="color:{_RED}">HIGH</b>' if notice.urgency == "high" else ""
    test = " <b>TEST</b>" if notice.test else ""
    style = f"font-size:13px;letter-spacing:.04em;margin-bottom:6px;color:{_DIM}"
    return f'<div class="dim" style="{style}">safetyd{high}{test}</div>\n'


def _one(notice: Notice, topic: Topic) -> Iterable[str]:
    if notice.privacy != "minimal":
        yield _words(exactly(topic), topic)
        yield _said("Why, the agent says", topic.why, _SANS)
        yield _facts(topic, notice)
    if topic.link:
        yield _ways(topic)


def _several(notice: Notice) -> Iterable[str]:
    if notice.list_link:
        yield _button(notice.list_link, "Review all")
    if notice.privacy != "minimal":
        yield from (_brief(topic, notice) for topic in notice.topics)
    if notice.more:
        yield _block(e(notice.rest), f"margin-top:20px;font-size:15px;color:{_INK}", "ink")


def _brief(topic: Topic, notice: Notice) -> str:
    high = f'<span class="high" style="color:{_RED}">HIGH</span> ' * (topic.urgency == "high")
    title = f'<div class="ink" style="font-size:16px;font-weight:600;color:{_INK}">'
    parts = (
        f"{title}{high}{e(named(topic))}</div>",
        _line(terms(topic)),
        _words(topic.lack, topic),
        _said("The agent says", topic.why, _SANS),
        _line(f"Until {said}" if (said := until(topic, notice.at)) else ""),
        _review(topic) if topic.link else "",
        "" if topic.code else _typed(topic.commands),
    )
    style = f"margin-top:20px;padding-top:16px;border-top:1px solid {_LINE}"
    return f'<div class="line" style="{style}">{"".join(parts)}</div>\n'


def _review(topic: Topic) -> str:
    code = f' &nbsp; code <b style="{_MONO};letter-spacing:.15em">{e(topic.code)}</b>'
    return (
        f'<div class="ink" style="margin-top:10px;font-size:16px;color:{_INK}">'
        f"{_link(topic.link, 'Review')}{code * bool(topic.code)}</div>"
    )


def _facts(topic: Topic, notice: Notice) -> str:
    rows = "".join(_row(name, said) for name, said in facts(topic, notice.at) if said)
    return f'{_TABLE} style="margin-top:18px">{rows}</table>\n' if rows else ""


def _row(name: str, said: str) -> str:
    cell = "padding:4px 0;font-size:15px;line-height:1.4;vertical-align:top"
    return (
        f'<tr><td class="dim" width="92" style="{cell};color:{_DIM}">{e(name)}</td>'
        f'<td class="ink" style="{cell};color:{_INK};{_BREAK}">{e(said)}</td></tr>'
    )


def _words(title: str, topic: Topic) -> str:
    font = _SANS if topic.kind == "alert" else _MONO
    said = _said(title, topic.text, font) if topic.text else _line(topic.lack and title)
    return said + _line(uncut(topic))


def _said(title: str, words: str, font: str) -> str:
    """Return the agent's words in a box, under a title of ours."""
    if not words:
        return ""
    # Some programs ignore white-space: pre-wrap.
    lines = "<br>".join(e(line).replace("  ", "&nbsp; ") for line in words.split("\n"))
    style = (
        f"margin-top:6px;padding:10px 12px;background:#f4f6f8;border-left:4px solid #c98a1b;"
        f"font-size:14px;line-height:1.5;color:{_INK};{font};{_BREAK}"
    )
    return f'{_line(title)}<div class="box ink" style="{style}">{lines}</div>\n'


def _line(words: str, align: str = "left") -> str:
    if not words:
        return ""
    style = f"margin-top:12px;font-size:13px;line-height:1.4;color:{_DIM};text-align:{align}"
    return _block(e(words), style, "dim")


def _ways(topic: Topic) -> str:
    if not topic.asks:
        return _button(topic.link, "Open")
    return f"{_button(topic.link, 'Review')}{_choice(topic)}{_code(topic)}"


def _choice(topic: Topic) -> str:
    """Return the way to either answer; both lead to the same page, and neither answers."""
    cells = [_cell(_aimed(topic.link, "d"), "Deny")]
    if topic.code:
        cells.insert(0, _cell(_aimed(topic.link, "a"), "Approve") + '<td width="12"></td>')
    return f'{_TABLE} style="margin-top:12px"><tr>{"".join(cells)}</tr></table>\n'


def _cell(link: str, label: str) -> str:
    style = "display:block;padding:12px;font-size:16px;text-decoration:none;color:#1a5fd0"
    return (
        '<td class="line" width="48%" align="center" '
        'style="border:1px solid #b4bec9;border-radius:8px">'
        f'<a class="plain" href="{e(link)}" style="{style}">{e(label)}</a></td>'
    )


def _aimed(link: str, intent: str) -> str:
    """Return a link to the same page, which only puts one button first."""
    return f"{link}{'&' if '?' in link else '?'}i={intent}"


def _code(topic: Topic) -> str:
    style = f"font-size:34px;line-height:1.2;letter-spacing:.25em;{_MONO};color:{_INK}"
    code = f'<div class="ink" style="{style}">{e(topic.code)}</div>' if topic.code else ""
    note = f'<div class="dim" style="font-size:13px;color:{_DIM}">{e(approving(topic))}</div>'
    return f'<div align="center" style="margin-top:18px">{code}{note}</div>\n'


def _button(link: str, label: str) -> str:
    style = (
        "display:block;padding:15px 20px;font-size:18px;font-weight:600;color:#ffffff;"
        "text-decoration:none;text-align:center"
    )
    return (
        f'{_TABLE} style="margin-top:20px"><tr><td align="center" bgcolor="#1a5fd0" '
        f'style="border-radius:8px;background:#1a5fd0">'
        f'<a href="{e(link)}" style="{style}">{e(label)}</a></td></tr></table>\n'
    )


def _link(link: str, label: str) -> str:
    return f'<a class="plain" href="{e(link)}" style="color:#1a5fd0">{e(label)}</a>'


def _terminal(notice: Notice) -> str:
    typed = _typed(commands(notice))
    return f"{_line('At a terminal')}{typed}" if typed else ""


def _typed(lines: tuple[str, ...]) -> str:
    style = f"margin-top:4px;font-size:12px;line-height:1.6;color:{_INK};{_MONO};{_BREAK}"
    return _block("<br>".join(map(e, lines)), style, "ink") if lines else ""


def _block(content: str, style: str, kind: str) -> str:
    return f'<div class="{kind}" style="{style}">{content}</div>\n'
