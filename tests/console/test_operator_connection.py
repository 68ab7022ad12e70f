"""What an operator's connection says of a daemon that it does not understand."""

import pytest

from safetyd import __version__
from safetyd.console import operator_connection
from safetyd.console.failure import Failure
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done
from tests.conftest import StartDaemon


class OtherAnswer(Done, frozen=True, kw_only=True):
    """An answer with a field that this daemon does not send."""

    missing: int


class OtherQuestion(Question[OtherAnswer], frozen=True, tag="limits"):
    """The same question, as another version asks it."""


def test_a_daemon_of_another_version_is_named_with_both_versions(
    start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location(data_dir=start_daemon().data_dir)

    with pytest.raises(Failure) as same:
        ask(location, OtherQuestion())
    monkeypatch.setattr(operator_connection, "__version__", "0.0.1")
    with pytest.raises(Failure) as other:
        ask(location, OtherQuestion())

    assert (same.value.code, other.value.code) == ("failed", "other_version")
    assert "0.0.1" in other.value.message
    assert __version__ in other.value.message
