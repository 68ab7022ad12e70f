import re
from itertools import product
from pathlib import Path

import pytest

from safetyd.console.setup.config_text import config_text, project_name
from safetyd.console.setup.setup_questions import Answers
from safetyd.core.action_types import Profile
from safetyd.daemon.config import parse
from safetyd.notify.desktop.channel import DesktopConfig
from safetyd.notify.email.channel import EmailConfig
from tests.console.console_rig import here

PROFILES: tuple[Profile, ...] = ("coding", "strict")
PROJECTS = (
    (None, ()),
    (Path("/srv/web"), ("pytest", 'npm run "x\\y"')),
    (Path('/srv/it\'s "über" \\ 1'), ()),
    (Path("/"), ()),
)
MAIL = EmailConfig(enabled=True, to="a@b.example", from_="a@b.example", smtp_host="b.example")
TOLD: dict[str, dict[str, object]] = {
    "nobody": {"desktop": DesktopConfig(enabled=False)},
    "desktop": {"desktop": DesktopConfig()},
    "helper": {"desktop": DesktopConfig(helper=True)},
    "mail": {"email": MAIL},
    "login": {
        "email": EmailConfig(
            enabled=True,
            to="a@b.example",
            from_='"A \\ B" <a@b.example>',
            smtp_host="b.example",
            smtp_port=465,
            security="tls",
            username="a",
            password_file="smtp.password",
        )
    },
}

COMBINATIONS = [
    Answers(profile=profile, root=root, checks=checks, **told)  # type: ignore[arg-type]
    for profile, (root, checks), told in product(PROFILES, PROJECTS, TOLD.values())
]

_would_be_a_setting = re.compile(r"^# (?=\[|\w+ = )", re.MULTILINE)


def words(answers: Answers) -> str:
    return f"{answers.profile}, {answers.root}, {answers.told}"


@pytest.mark.parametrize("answers", COMBINATIONS, ids=words)
def test_every_combination_of_answers_is_right_and_comes_to_what_was_answered(answers):
    config = parse(config_text(answers), "safetyd.toml")

    assert config.profile == answers.profile
    assert config.notifications.of(EmailConfig) == answers.email
    assert config.notifications.of(DesktopConfig) == answers.desktop
    assert [project.root for project in config.projects.values()] == (
        [str(answers.root)] if answers.root else []
    )
    assert all(project.default for project in config.projects.values())
    assert [project.checks or () for project in config.projects.values()] == (
        [answers.checks] if answers.root else []
    )


@pytest.mark.parametrize("answers", COMBINATIONS, ids=words)
def test_config_check_has_nothing_to_say_but_that_a_secret_is_missing(answers, tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text(config_text(answers))

    said = here("config", "check", str(path), "--data-dir", str(tmp_path))

    # The folders of this test do not exist.
    warned = [line for line in said.stderr.splitlines() if "is not a folder" not in line]
    assert said.returncode == 0
    assert all("notifications.email.password_file" in line for line in warned)
    assert len(warned) == bool(answers.email.password_file)


@pytest.mark.parametrize("answers", COMBINATIONS, ids=words)
def test_what_stands_there_as_a_comment_can_be_switched_on(answers):
    text, changed = _would_be_a_setting.subn("", config_text(answers))

    assert changed
    assert parse(text, "safetyd.toml").budget.day_usd == 50


def test_a_setting_is_followed_by_its_comment_in_one_column():
    lines = config_text(Answers(root=Path("/srv/web"))).splitlines()

    assert 'root = "/srv/web"           # actions outside of it need approval' in lines
    assert len({line.index(" # ", 2) for line in lines if " # " in line[2:]}) == 1


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/srv/web", "web"),
        ("/srv/my shop.v2", "my-shop-v2"),
        ("/srv/.dotfiles", "dotfiles"),
        ("/srv/日本", "project"),
        ("/", "project"),
        (f"/srv/{'a' * 200}", "a" * 64),
    ],
)
def test_a_project_is_called_as_its_folder(folder, name):
    assert project_name(Path(folder)) == name
