"""The three questions of `safetyd init`, their defaults, and the answers.

Questions are printed to standard error, so that standard output contains only the result.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import convert
from msgspec.structs import replace

from safetyd.console.render.layout import indented
from safetyd.console.render.profiles import PASSES
from safetyd.console.setup.project_checks import package_name, project_checks
from safetyd.console.terminal_text import plain
from safetyd.core.action_types import Profile
from safetyd.host import is_this_machine, session_bus
from safetyd.notify.address_book import Tables, problems
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.desktop.channel import DesktopConfig
from safetyd.notify.email.channel import EmailConfig

NONE: Final = "none"
UNCONFINED: Final = "no folder: files anywhere can be changed without approval"
_AGENTS_DO: Final[Mapping[Profile, str]] = {
    "coding": "write code",
    "strict": "anything else",
}
TOLD: Final = {
    "desktop": "notifications on your desktop",
    "mail": "mail through your SMTP server",
    NONE: "no notifications; `safetyd list` shows pending requests",
}
_PORTS: Final = {"starttls": 587, "tls": 465, NONE: 25}
_SECURITIES: Final = click.Choice(tuple(_PORTS))


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers: profile, project folder and checks, and how operators are notified."""

    profile: Profile = "coding"
    root: Path | None = None  # of the project
    checks: tuple[str, ...] = ()  # commands of the project that need no approval
    desktop: DesktopConfig = DesktopConfig(enabled=False)
    email: EmailConfig = EmailConfig()

    @property
    def told(self) -> str:
        """Return the answer to the third question: how operators are notified."""
        if self.email.enabled:
            return "mail"
        return "desktop" if self.desktop.enabled else "none"


def proposed() -> Answers:
    """Return the defaults for the current directory and machine."""
    root = _repository(Path.cwd())
    checks = project_checks(root) if root else ()
    desktop = DesktopConfig(enabled=bool(session_bus()))
    return Answers(root=root, checks=checks, desktop=desktop)


def on_a_desktop() -> DesktopConfig:
    """Return the desktop channel. It uses the helper if this is not a desktop session."""
    return DesktopConfig(helper=not session_bus())


def unfit(root: Path) -> str:
    """Return why a folder cannot be a project, or an empty string if it can."""
    if not root.is_dir():
        return f"{root} is not a folder"
    if Path(os.path.expanduser("~")).resolve().is_relative_to(root):  # noqa: PTH111 - never raises
        return f"{root} contains your home directory. Give the folder of one project"
    try:
        str(root).encode()
    except UnicodeEncodeError:
        return "the name of that folder is not valid UTF-8"
    return ""


def _repository(directory: Path) -> Path | None:
    """Return the root of the git repository around a directory, if it can be a project.

    A checkout of safetyd is where safetyd is installed from, not where agents work.
    """
    for root in (directory, *directory.parents):
        if (root / ".git").exists():
            return None if unfit(root) or package_name(root) == "safetyd" else root
    return None


def ask(proposed: Answers) -> Answers:
    """Ask the three questions and return the answers."""
    _say("Three questions. Press Enter for the default in brackets, Ctrl-C to cancel.")
    profile = _ask_profile(proposed.profile)
    root = _ask_root(proposed.root)
    # In `coding`, commands that work in the project are allowed anyway.
    checks = _ask_checks(project_checks(root)) if root and profile == "strict" else ()
    told = _ask_told(proposed.told)
    answers = Answers(profile=profile, root=root, checks=checks)
    if told == "mail":
        answers = replace(answers, email=_ask_mail())
    elif told == "desktop":
        answers = replace(answers, desktop=on_a_desktop())
    _say("")
    return answers


def _ask_profile(default: Profile) -> Profile:
    _say("\n1. What do your agents do?")
    _options({name: f"{does}: {PASSES[name]}" for name, does in _AGENTS_DO.items()})
    profile: Profile = _prompt("Profile", default, click.Choice(tuple(_AGENTS_DO)))
    return profile


def _ask_root(default: Path | None) -> Path | None:
    _say("\n2. In which folder do they work? Actions outside of it need approval.")
    _options({NONE: UNCONFINED})
    root: Path | None = click.prompt(
        "   Folder", default=str(default or NONE), value_proc=_folder, err=True
    )
    return root


def _ask_checks(found: tuple[str, ...]) -> tuple[str, ...]:
    """Ask whether agents may run the tests, linters and builds that the project declares."""
    if not found:
        return ()
    _say("   The project's files declare these tests, linters and builds:")
    _say(f"     {', '.join(found)}")
    allowed = click.confirm("   Allow them without approval?", default=False, err=True)
    return found if allowed else ()


def _folder(typed: str) -> Path | None:
    if typed == NONE:
        return None
    if not typed.isprintable():
        raise click.UsageError(f"{plain(typed)} is not a folder")
    root = Path(os.path.realpath(os.path.expanduser(typed)))  # noqa: PTH111 - never raises
    if why := unfit(root):
        raise click.UsageError(plain(why))
    return root


def _ask_told(default: str) -> str:
    _say("\n3. How should safetyd notify you of pending requests?")
    _options(TOLD)
    told: str = _prompt("Notify by", default, click.Choice(tuple(TOLD)))
    return told


def _ask_mail() -> EmailConfig:
    """Ask for the mail settings."""
    _say("\n   Your mail server (`safetyd docs notifications` explains the settings)")
    mail: dict[str, object] = {"enabled": True}
    to = _ask_setting(mail, "to")
    sender = _ask_setting(mail, "from", to)
    host = _ask_setting(mail, "smtp_host", f"smtp.{to.rpartition('@')[2]}")
    local = is_this_machine(host)
    security = _ask_setting(mail, "security", NONE if local else "starttls", _SECURITIES)
    _ask_setting(mail, "smtp_port", str(_PORTS[security]), click.IntRange(1, 65535))
    login = _prompt(f"username ({NONE}: no login)", NONE if local else sender)
    if login != NONE:
        mail["username"] = login
        _ask_setting(mail, "password_file", "smtp.password")
    return convert(mail, EmailConfig)


def _ask_setting(
    mail: dict[str, object],
    name: str,
    default: str | None = None,
    kind: click.ParamType[Any] = click.STRING,
) -> Any:
    """Ask for one mail setting until it is valid."""

    def read(typed: str) -> object:
        given = {**mail, name: kind(typed)}
        tables = Tables(convert({"email": given}, NotificationsConfig), ())
        for key, why in problems(tables):
            if key == f"notifications.email.{name}":
                raise click.UsageError(plain(f"{name} {why}"))
        return given[name]

    choices = f" ({', '.join(kind.choices)})" if isinstance(kind, click.Choice) else ""
    mail[name] = click.prompt(f"   {name}{choices}", default=default, value_proc=read, err=True)
    return mail[name]


def _prompt(name: str, default: str, kind: click.ParamType[Any] = click.STRING) -> Any:
    return click.prompt(f"   {name}", default=default, type=kind, show_choices=False, err=True)


def _options(options: Mapping[Any, str]) -> None:
    for line in indented(options.items()):
        _say(f" {line}")


def _say(line: str) -> None:
    click.echo(line, err=True)
