"""What each profile lets pass, in the words of the start and of `safetyd init`."""

from collections.abc import Mapping
from typing import Final

from safetyd.core.policy import Profile

# Of shell commands: in everything else the profiles are the same.
PASSES: Final[Mapping[Profile, str]] = {
    "strict": "shell commands that do more than look are asked about",
    "coding": "shell commands that look, or work in the project, pass",
}
_OTHER: Final[Mapping[Profile, str]] = {
    "strict": 'profile = "coding" lets those that work in the project pass (`safetyd init`).',
    "coding": 'profile = "strict" asks about all that do more than look.',
}


def judged_by(profile: Profile) -> tuple[str, str]:
    """Return two lines: which profile is on, and how to change that."""
    return f"Profile {profile}: {PASSES[profile]}.", _OTHER[profile]
