"""Descriptions of the profiles, which `safetyd run` and `safetyd init` print."""

from collections.abc import Mapping
from typing import Final

from safetyd.core.action_types import Profile

# The profiles differ only in how they treat shell commands.
PASSES: Final[Mapping[Profile, str]] = {
    "strict": "shell commands need approval unless they only read",
    "coding": "commands that read or work in the project are allowed",
}
_OTHER: Final[Mapping[Profile, str]] = {
    "strict": 'profile = "coding" also allows work in the project (see `safetyd init`).',
    "coding": 'profile = "strict" allows only commands that read.',
}


def judged_by(profile: Profile) -> tuple[str, str]:
    """Return two lines: the active profile, and how to change it."""
    return f"Profile {profile}: {PASSES[profile]}.", _OTHER[profile]
