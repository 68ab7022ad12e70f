"""The template environment of pages and mails."""

import re
from pathlib import Path
from types import CodeType

import jinja2
import pytest
from jinja2 import DictLoader

from safetyd.html_templates import coded, environment, seen
from tests.checkout import ROOT

TEMPLATES = sorted((ROOT / "safetyd").rglob("templates/**/*.html"))
# Not escaped: our own style, and a non-breaking space.
UNESCAPED = {
    "web/templates/link_frame.html": ["style | safe"],
    "notify/templates/parts.html": ['" | safe'],
}


def rendered(template: str, **values: object) -> str:
    made = environment("safetyd.web", begin="link")
    made.loader = DictLoader({"it": template})
    return made.get_template("it").render(values)


def test_a_value_is_escaped() -> None:
    assert rendered("<p>{{ said }}</p>", said="<b>'\"&") == "<p>&lt;b&gt;&#39;&#34;&amp;</p>"


def test_what_is_not_seen_is_spelt_out() -> None:
    assert str(seen("a\u202eb")) == 'a<span class="odd">\\u202e</span>b'


def test_what_is_spelt_out_is_escaped_too() -> None:
    assert rendered("{{ said | seen }}", said="<i>\x00") == (
        '&lt;i&gt;<span class="odd">\\x00</span>'
    )


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="said"):
        rendered("{{ said }}")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_escapes_everything(path: Path) -> None:
    text = path.read_text()
    found = re.findall(r"\S+ *\| *safe\b|autoescape", text)

    assert found == UNESCAPED.get(str(path.relative_to(ROOT / "safetyd")), [])


def test_a_field_that_an_answer_leaves_out_is_empty() -> None:
    assert rendered("{% if row.by %}by {{ row.by }}{% endif %}{{ row.at }}", row={}) == ""


def test_a_template_is_compiled_once_and_again_when_its_text_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder stands in for an installed package; a later process reads it again."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "__init__.py").touch()
    (folder := tmp_path / "shown" / "templates").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    compiled = list[str]()

    class Counting(jinja2.Environment):
        def _compile(self, source: str, filename: str) -> CodeType:
            compiled.append(source)
            return super()._compile(source, filename)

    monkeypatch.setattr("safetyd.html_templates.Environment", Counting)

    def shown(text: str) -> tuple[str, int]:
        (folder / "it.html").write_text(text)
        before = len(compiled)
        html = environment("shown").get_template("it.html").render()
        return html, len(compiled) - before

    assert shown("one") == ("one", 1)
    assert shown("one") == ("one", 0)
    assert shown("two") == ("two", 1)
    for file in folder.parent.glob("__pycache__/*.jinja"):
        file.write_bytes(file.read_bytes()[:20])  # torn
    assert shown("two") == ("two", 1)


def test_where_nothing_may_be_written_templates_are_compiled_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "__init__.py").touch()
    (folder := tmp_path / "bare" / "templates").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    (folder / "it.html").write_text("one")

    assert environment("bare").get_template("it.html").render() == "one"
    assert not (tmp_path / "bare" / "__pycache__").exists()


def test_what_stands_in_backticks_is_code() -> None:
    assert coded("Do `a <b>` & `c`.") == "Do <code>a &lt;b&gt;</code> &amp; <code>c</code>."


def test_words_from_right_to_left_do_not_move_the_numbers_around_them() -> None:
    hebrew, marked = "\u05d0\u05d1", "\u05d0\u05b0"

    assert str(seen(f"pay {hebrew} 100 <{marked}> 5")) == (
        f"pay <bdi>{hebrew}</bdi> 100 &lt;<bdi>{marked}</bdi>&gt; 5"
    )
    assert str(seen("caf\u00e9 e\u0301")) == "caf\u00e9 e\u0301"
