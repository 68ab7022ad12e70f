"""The source of a stop says on which of several daemons its file or variable is."""

import pytest

from safetyd.core.guards.stop import daemon_of


@pytest.mark.parametrize(
    ("source", "daemon"),
    [
        ("operator", ""),
        ("anomaly", ""),
        ("environment", ""),
        ("environment:b", "b"),
        ("file:/var/lib/safetyd/EMERGENCY_STOP", ""),
        ("file:/var/lib/safetyd/EMERGENCY_STOP on b", "b"),
        ("file:/srv/a on b/STOP on c", "c"),
    ],
)
def test_daemon_of_a_source(source: str, daemon: str) -> None:
    assert daemon_of(source) == daemon
