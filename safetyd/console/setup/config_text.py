"""The configuration that `safetyd init` writes: what was answered, with comments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from safetyd.console.render.profiles import PASSES
from safetyd.console.setup.setup_questions import Answers
from safetyd.console.subcommands.show_config import as_toml
from safetyd.core.messages.proposal import is_token
from safetyd.core.policy import Profile
from safetyd.notify.email.channel import EmailConfig

_HEAD: Final = """\
# safetyd on this machine, as `safetyd init` wrote it. What is not here has its default:
# `safetyd docs config/safetyd.toml` has every setting and says when to turn it.
# After a change `safetyd config check FILE` names mistakes, and `safetyd reload` takes it on.
"""
_FOOT: Final = """\
# [budget]                  # US dollars; people are told at four fifths
# day_usd = 50              # of all agents in one UTC day
"""
_COLUMN: Final = 26  # that comments leave to settings
_MAX_NAME_CHARS: Final = 64
_not_in_names = re.compile(r"[^A-Za-z0-9_-]+")


def config_text(answers: Answers) -> str:
    """Return the whole file."""
    parts = (_profile(answers), _project(answers.root), _telling(answers))
    return "\n".join((_HEAD, *("".join(f"{line}\n" for line in part) for part in parts), _FOOT))


def project_name(root: Path) -> str:
    """Return what a project is called, made of its folder's name."""
    name = _not_in_names.sub("-", root.name)[:_MAX_NAME_CHARS].strip("-")
    return name if is_token(name) else "project"


def _profile(answers: Answers) -> Iterator[str]:
    other: Profile = "coding" if answers.profile == "strict" else "strict"
    yield f"# {PASSES[answers.profile].capitalize()}."
    yield f'# With "{other}" {PASSES[other]}.'
    yield _setting("profile", answers.profile)


def _project(root: Path | None) -> Iterator[str]:
    """Yield the lines of a project, or what they would be."""
    if root is None:
        yield "# [projects.web]            # a folder that agents work in, and what they call it"
        yield '# root = "/srv/web"         # what leads out of it is asked about'
        return
    name = project_name(root)
    yield "# Agents give this name as `project` of what they propose."
    yield f"[projects.{name}]"
    yield _setting("root", str(root), "what leads out of it is asked about")
    yield '# agents = ["code"]         # for these it may also loosen; for others it only tightens'


def _telling(answers: Answers) -> Iterator[str]:
    desktop = answers.desktop
    if answers.email.enabled:
        yield from _mail(answers.email)
    yield "[notifications.desktop]"
    if not desktop.enabled:
        meaning = "on this desktop as well" if answers.email.enabled else "on this desktop"
        yield _setting("enabled", value=False, comment=f"true: people are told {meaning}")
        return
    yield _setting("enabled", value=True)
    if desktop.helper:
        comment = "`safetyd desktop`, left running in your session, shows them"
        yield _setting("helper", value=True, comment=comment)


def _mail(email: EmailConfig) -> Iterator[str]:
    yield "[notifications.email]       # `safetyd notify test` sends a real message"
    yield _setting("enabled", value=True)
    yield _setting("to", email.to)
    yield _setting("from", email.from_)
    yield _setting("smtp_host", email.smtp_host)
    yield _setting("smtp_port", email.smtp_port)
    yield _setting("security", email.security, "starttls | tls | none, to this machine only")
    if email.username:
        yield _setting("username", email.username)
        where = "in the data directory, readable by the daemon alone"
        yield _setting("password_file", email.password_file, where)
    yield ""


def _setting(name: str, value: object, comment: str = "") -> str:
    line = f"{name} = {as_toml(value)}"
    return f"{line:<{_COLUMN}}  # {comment}" if comment else line
