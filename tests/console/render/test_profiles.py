from typing import get_args

import pytest

from safetyd.console.render.profiles import judged_by
from safetyd.core.action_types import Profile


@pytest.mark.parametrize("profile", get_args(Profile))
def test_a_profile_is_named_with_another_and_fits_a_terminal(profile):
    judged, other = judged_by(profile)

    assert judged.startswith(f"Profile {profile}: ")
    assert any(f'profile = "{name}"' in other for name in get_args(Profile) if name != profile)
    assert max(len(judged), len(other)) <= 78
