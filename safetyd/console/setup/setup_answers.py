"""What a configuration is written from, and what this machine proposes for it."""

import os
from pathlib import Path

import msgspec

from safetyd.core.policy import Profile
from safetyd.host import session_bus
from safetyd.notify.desktop.channel import DesktopConfig
from safetyd.notify.email.channel import EmailConfig


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The three answers: how shell commands are judged, where the work is, who is told how."""

    profile: Profile = "coding"
    root: Path | None = None  # of the project
    desktop: DesktopConfig = DesktopConfig(enabled=False)
    email: EmailConfig = EmailConfig()

    @property
    def told(self) -> str:
        """Return how people are told, as the question has it."""
        if self.email.enabled:
            return "mail"
        return "desktop" if self.desktop.enabled else "none"


def proposed() -> Answers:
    """Return what is right for most people who stand where this command was typed."""
    return Answers(root=_repository(Path.cwd()), desktop=DesktopConfig(enabled=bool(session_bus())))


def on_a_desktop() -> DesktopConfig:
    """Return the channel to the desktop; where there is none, of the helper in one elsewhere."""
    return DesktopConfig(helper=not session_bus())


def unfit(root: Path) -> str:
    """Say why a folder cannot be a project; nothing if it can."""
    if not root.is_dir():
        return f"{root} is no folder"
    if Path(os.path.expanduser("~")).resolve().is_relative_to(root):  # noqa: PTH111 - never raises
        return f"{root} holds all that is yours: name the folder of one project"
    try:
        str(root).encode()
    except UnicodeEncodeError:
        return "the name of that folder is not UTF-8"
    return ""


def _repository(directory: Path) -> Path | None:
    """Return the root of the git repository that a directory is in, if that can be a project."""
    for root in (directory, *directory.parents):
        if (root / ".git").exists():
            return None if unfit(root) else root
    return None
