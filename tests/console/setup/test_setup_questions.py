from pathlib import Path

import pytest

from safetyd.daemon.config import Config, load
from safetyd.notify.email.channel import EmailConfig
from tests.console.console_rig import Said
from tests.console.setup.dialogue import Dialogue, dialogue

pytestmark = pytest.mark.usefixtures("measured")

WIDTH = 80
CTRL_D = "\x04"


class Machine:
    """A home, a project that is a repository, and a file to write."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.project = directory / "web"
        self.file = directory / "my.toml"
        (self.project / ".git").mkdir(parents=True)
        self.home.mkdir()

    def init(self, *typed: str, **variables: str) -> Said:
        return dialogue(
            *("init", str(self.file)),
            typed=typed,
            cwd=self.project,
            HOME=str(self.home),
            **variables,
        )

    @property
    def config(self) -> Config:
        return load(self.file)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_enter_takes_what_is_proposed(machine):
    said = machine.init("", "", "")

    assert said.returncode == 0
    assert machine.config.profile == "coding"
    assert machine.config.projects["web"].root == str(machine.project)
    assert machine.config.notifications.desktop.enabled is False


def test_the_desktop_is_proposed_where_there_is_one(machine):
    machine.init("", "", "", DBUS_SESSION_BUS_ADDRESS="unix:path=/nowhere")

    assert machine.config.notifications.desktop.enabled is True
    assert machine.config.notifications.desktop.helper is False


def test_a_desktop_elsewhere_needs_its_helper_and_says_so(machine):
    said = machine.init("", "", "desktop")

    assert machine.config.notifications.desktop.helper is True
    assert "And in another terminal:\n" in said.stdout
    assert said.stdout.endswith(" desktop\n")


def test_other_answers_are_taken(machine):
    machine.init("strict", "none", "none")

    assert machine.config.profile == "strict"
    assert machine.config.projects == {}


def test_a_folder_may_be_given_from_here_or_from_home(machine):
    (machine.home / "shop").mkdir()

    machine.init("", "~/shop", "")

    assert machine.config.projects["shop"].root == str(machine.home / "shop")


def test_what_cannot_be_a_project_is_said_and_asked_again(machine):
    said = machine.init("", "nowhere", "/", "a\x16\x01b", ".", "")

    assert f"Error: {machine.project / 'nowhere'} is not a folder\n" in said.stderr
    assert "Error: / contains your home directory. Give the folder of one project\n" in said.stderr
    assert "Error: a\\x01b is not a folder\n" in said.stderr
    assert machine.config.projects["web"].root == str(machine.project)


def test_an_answer_that_is_none_of_them_is_asked_again(machine):
    said = machine.init("lax", "strict", "", "pigeon", "")

    assert "Error: 'lax' is not one of 'coding', 'strict'." in said.stderr
    assert "Error: 'pigeon' is not one of 'desktop', 'mail', 'none'." in said.stderr
    assert machine.config.profile == "strict"


def test_mail_is_asked_for_by_the_names_of_its_settings(machine):
    said = machine.init("", "", "mail", "me@example.com", "", "", "", "", "", "")

    assert machine.config.notifications.email == EmailConfig(
        enabled=True,
        to="me@example.com",
        from_="me@example.com",
        smtp_host="smtp.example.com",
        username="me@example.com",
        password_file="smtp.password",
    )
    secret = machine.home / ".local/state/safetyd/smtp.password"
    assert f"  install -m 600 /dev/stdin {secret}\n" in said.stdout
    assert said.stdout.endswith(" notify test\n")


def test_mail_by_this_machine_needs_neither_encryption_nor_login(machine):
    said = machine.init("", "", "mail", "me@example.com", "", "localhost", "", "", "")

    email = machine.config.notifications.email
    assert (email.security, email.smtp_port, email.username) == ("none", 25, "")
    assert "/dev/stdin" not in said.stdout


def test_encryption_from_the_start_has_its_port(machine):
    machine.init("", "", "mail", "me@example.com", "", "", "tls", "", "me", "gmail.password")

    email = machine.config.notifications.email
    assert (email.security, email.smtp_port) == ("tls", 465)
    assert (email.username, email.password_file) == ("me", "gmail.password")


def test_settings_that_cannot_work_are_said_and_asked_again(machine):
    to = ("me at example.com", "me@example.com")
    host = ("smtp.example.com:25", "")
    said = machine.init("", "", "mail", *to, "", *host, "none", "starttls", "0", "many", "", "none")

    assert "Error: to 'me at example.com' is not a mail address\n" in said.stderr
    assert "Error: smtp_host is 'smtp.example.com:25'" in said.stderr
    assert 'Error: security is "none"' in said.stderr
    assert "Error: 0 is not in the range" in said.stderr
    assert "Error: 'many' is not a valid integer" in said.stderr
    assert machine.config.notifications.email.username == ""


def test_a_secret_that_is_there_is_not_asked_for(machine):
    directory = machine.home / ".local/state/safetyd"
    directory.mkdir(parents=True)
    (directory / "smtp.password").write_text("tops3cret\n")

    said = machine.init("", "", "mail", "me@example.com", "", "", "", "", "", "")

    assert "/dev/stdin" not in said.stdout
    assert "tops3cret" not in machine.file.read_text()


def test_questions_fit_a_terminal_of_80_columns(machine):
    said = machine.init("", "", "mail", "me@example.com", "", "", "", "", "", "")

    lines = (said.stderr + said.stdout).splitlines()
    ours = [line for line in lines if str(machine.file.parent) not in line]
    assert len(ours) > 20
    assert [line for line in ours if len(line) > WIDTH] == []


def test_the_end_of_what_is_typed_writes_nothing(machine):
    with Dialogue("init", str(machine.file), cwd=machine.project) as opened:
        opened.answer("strict")
        opened.press(CTRL_D)
        said = opened.end()

    assert said.returncode == 1
    assert said.stderr.endswith("Interrupted.\n")
    assert not machine.file.exists()


def test_a_file_that_came_meanwhile_stays(machine):
    with Dialogue("init", str(machine.file), cwd=machine.project) as opened:
        opened.answer("", "")
        machine.file.write_text("# mine\n")
        opened.answer("")
        said = opened.end()

    assert said.returncode == 1
    assert "already exists" in said.stderr
    assert machine.file.read_text() == "# mine\n"
    assert list(machine.file.parent.glob("*.new")) == []
