"""The configuration file that `safetyd init` writes, with comments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from safetyd.console.render.profiles import PASSES
from safetyd.console.setup.setup_questions import Answers
from safetyd.console.subcommands.show_config import as_toml
from safetyd.core.action_types import Profile
from safetyd.core.messages.proposal import is_token
from safetyd.notify.email.channel import EmailConfig

_HEAD: Final = """\
# Configuration of safetyd, written by `safetyd init`. Settings that are missing here have their
# defaults. `safetyd docs config/safetyd.toml` explains all settings.
# After a change, run `safetyd config check FILE` and then `safetyd reload`.
"""
_FOOT: Final = """\
# [budget]                  # in US dollars; operators are warned at 80 %
# day_usd = 50              # for all agents together, per day (UTC)
"""
_COLUMN: Final = 26  # where comments start
_MAX_NAME_CHARS: Final = 64
_not_in_names = re.compile(r"[^A-Za-z0-9_-]+")


def config_text(answers: Answers) -> str:
    """Return the content of the configuration file."""
    parts = (_profile(answers), _project(answers), _telling(answers))
    return "\n".join((_HEAD, *("".join(f"{line}\n" for line in part) for part in parts), _FOOT))


def project_name(root: Path) -> str:
    """Return a project name made from the name of its folder."""
    name = _not_in_names.sub("-", root.name)[:_MAX_NAME_CHARS].strip("-")
    return name if is_token(name) else "project"


def _profile(answers: Answers) -> Iterator[str]:
    other: Profile = "coding" if answers.profile == "strict" else "strict"
    yield f"# {PASSES[answers.profile].capitalize()}."
    yield f'# With "{other}", {PASSES[other]}.'
    yield _setting("profile", answers.profile)


def _project(answers: Answers) -> Iterator[str]:
    """Yield the section of the project or, if there is none, an example in comments."""
    root, checks = answers.root, answers.checks
    if root is None:
        yield "# [projects.web]            # a folder that agents work in, and its name"
        yield '# root = "/srv/web"         # actions outside of it need approval'
        yield "# default = true            # also for proposals that name no `project`"
        return
    name = project_name(root)
    yield f"[projects.{name}]"
    yield _setting("root", str(root), "actions outside of it need approval")
    yield _setting("default", value=True, comment="also for proposals that name no `project`")
    yield '# agents = ["code"]         # looser rules apply only to these agents'
    yield "# Commands that need no approval, also with files or options that only select tests."
    yield _setting("checks", list(checks)) if checks else '# checks = ["pytest"]'


def _telling(answers: Answers) -> Iterator[str]:
    desktop = answers.desktop
    if answers.email.enabled:
        yield from _mail(answers.email)
    yield "[notifications.desktop]"
    if not desktop.enabled:
        yield _setting("enabled", value=False, comment="true: also notify on this desktop")
        return
    yield _setting("enabled", value=True)
    if desktop.helper:
        comment = "keep `safetyd desktop` running in your session"
        yield _setting("helper", value=True, comment=comment)


def _mail(email: EmailConfig) -> Iterator[str]:
    yield "[notifications.email]       # test it with `safetyd notify test`"
    yield _setting("enabled", value=True)
    yield _setting("to", email.to)
    yield _setting("from", email.from_)
    yield _setting("smtp_host", email.smtp_host)
    yield _setting("smtp_port", email.smtp_port)
    yield _setting("security", email.security, "starttls, tls, or none (this machine only)")
    if email.username:
        yield _setting("username", email.username)
        where = "in the data directory, readable only by the daemon"
        yield _setting("password_file", email.password_file, where)
    yield ""


def _setting(name: str, value: object, comment: str = "") -> str:
    line = f"{name} = {as_toml(value)}"
    return f"{line:<{_COLUMN}}  # {comment}" if comment else line
