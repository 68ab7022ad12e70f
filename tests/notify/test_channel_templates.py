"""Templates that an operator replaced: good ones are used, bad ones fall back with an alert."""

from pathlib import Path

import pytest

from safetyd.notify.channel_templates import ChannelTemplates
from safetyd.notify.email.mail_channel import mail
from safetyd.notify.template_rendering import NAMES, WIDTH, bars, shipped
from tests.notify.message_samples import CODE, notice, request_topic

TOO_SLOW = "{% for a in range(9**9) %}{% for b in range(9**9) %}{% endfor %}{% endfor %}"


class Replaced:
    """A data directory with one template of the operator's."""

    def __init__(self, directory: Path, name: str, content: str) -> None:
        self.broken: list[tuple[str, str]] = []
        self.file = directory / name
        self.file.write_text(content)
        self.templates = ChannelTemplates(directory, lambda *said: self.broken.append(said))

    def text(self) -> str:
        message = mail(notice(templates=self.templates), "safetyd@example.com", "host")
        part = message.get_body(("plain",))
        assert part is not None
        return str(part.get_content())


def test_a_replaced_template_is_used_and_escapes_what_a_page_must(tmp_path: Path) -> None:
    replaced = Replaced(tmp_path, "mail.txt", "Look: {{ message.headline }} at {{ message.at }}")
    (tmp_path / "mail.html").write_text("<p>{{ message.single.find('text') }}</p>")
    hostile = notice(request_topic(text="<script>"), templates=replaced.templates)

    page = mail(hostile, "safetyd@example.com", "host").get_body(("html",))

    assert replaced.text().startswith(
        "Look: push by code: git push --force origin main at 2026-03-02"
    )
    assert page is not None
    assert page.get_content().strip() == "<p>&lt;script&gt;</p>"
    assert replaced.broken == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{% if %}", "line 1: "),
        ("{{ message.nothing }}", "has no attribute 'nothing'"),
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'x' * 10**7 }}", "1,000,000 characters"),
        (TOO_SLOW, "it takes longer than 0.5 s"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "/etc/passwd"),
        ("code {{ message.single.code }}", ": exact text"),
    ],
)
def test_a_template_that_fails_falls_back_and_is_told_of_once(
    tmp_path: Path, content: str, why: str
) -> None:
    replaced = Replaced(tmp_path, "mail.txt", content)

    first, second = replaced.text(), replaced.text()

    assert first == second
    assert f"Code: {CODE}" in first
    [(name, said)] = replaced.broken
    assert name == "mail.txt"
    assert why in said


def test_a_template_is_tried_again_once_it_was_changed(tmp_path: Path) -> None:
    replaced = Replaced(tmp_path, "mail.txt", "{% if %}")
    replaced.text()
    replaced.file.write_text("fixed: {{ message.headline }}")

    assert replaced.text().strip() == "fixed: push by code: git push --force origin main"
    assert len(replaced.broken) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_template_works_as_an_operators_own(tmp_path: Path, name: str) -> None:
    values = {"message": notice(), "link": "https://x.example", "replies": True}
    broken: list[str] = []
    (tmp_path / name).write_text(shipped(name))

    own = ChannelTemplates(tmp_path, lambda _name, why: broken.append(why)).render(name, **values)

    assert broken == []
    assert own == ChannelTemplates().render(name, **values)


def test_long_lines_of_an_agent_are_broken_between_words_and_lose_nothing() -> None:
    words = "the customer was called and said that " * 5
    unbroken = "x" * (2 * WIDTH + 1)

    rows = bars([words]).split("\n")

    assert " ".join(row[4:] for row in rows).split() == words.split()
    assert max(len(row) for row in rows) <= WIDTH + 4
    assert [len(row) for row in bars([unbroken]).split("\n")] == [WIDTH + 4, WIDTH + 4, 5]
