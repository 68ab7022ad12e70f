import os
from pathlib import Path

import pytest

from safetyd.console.setup.setup_questions import Answers, on_a_desktop, proposed, unfit
from safetyd.notify.desktop.channel import DesktopConfig
from safetyd.notify.email.channel import EmailConfig

BUS = "DBUS_SESSION_BUS_ADDRESS"


@pytest.fixture(autouse=True)
def no_desktop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(BUS, raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_the_repository_around_is_the_project(tmp_path, monkeypatch):
    folder(tmp_path / "web" / ".git")
    monkeypatch.chdir(folder(tmp_path / "web" / "src" / "pages"))

    assert proposed().root == tmp_path / "web"


def test_a_worktree_is_a_project_too(tmp_path, monkeypatch):
    (folder(tmp_path / "web") / ".git").write_text("gitdir: elsewhere\n")
    monkeypatch.chdir(tmp_path / "web")

    assert proposed().root == tmp_path / "web"


def test_a_checkout_of_safetyd_is_not_where_agents_work(tmp_path, monkeypatch):
    folder(tmp_path / ".git")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "safetyd"\n')
    monkeypatch.chdir(tmp_path)

    assert proposed().root is None


def test_a_home_that_is_a_repository_is_no_project(tmp_path, monkeypatch):
    folder(tmp_path / "home" / ".git")
    monkeypatch.chdir(folder(tmp_path / "home" / "notes"))

    assert proposed().root is None


def test_the_desktop_is_proposed_where_there_is_one(monkeypatch):
    assert proposed().told == "none"
    monkeypatch.setenv(BUS, "unix:path=/run/user/1/bus")
    assert proposed().told == "desktop"


def test_a_desktop_elsewhere_is_reached_by_the_helper(monkeypatch):
    assert on_a_desktop() == DesktopConfig(helper=True)
    monkeypatch.setenv(BUS, "unix:path=/run/user/1/bus")
    assert on_a_desktop() == DesktopConfig()


def test_mail_is_how_people_are_told_once_it_is_set():
    assert Answers(email=EmailConfig(enabled=True)).told == "mail"


def test_what_holds_the_home_is_no_project(tmp_path):
    folder(tmp_path / "home" / "web")

    assert unfit(tmp_path / "home" / "web") == ""
    for root in (tmp_path / "home", tmp_path, Path("/")):
        assert "Give the folder of one project" in unfit(root)


def test_what_is_no_folder_is_no_project(tmp_path):
    (tmp_path / "file").touch()

    assert unfit(tmp_path / "file") == f"{tmp_path / 'file'} is not a folder"


def test_a_folder_whose_name_cannot_be_written_down_is_no_project(tmp_path):
    assert "not valid UTF-8" in unfit(folder(tmp_path / os.fsdecode(b"caf\xe9")))
