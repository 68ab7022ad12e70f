"""Which flags and files leave the hooks out, so that docs/hosts.md says what is true.

A push is tried, which nobody approves. If a newer version of a host changes a line here, change the
document, too.
"""

from collections.abc import Callable
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.left_out_ways import WAYS, Way, protect_and_leave_out
from tests.hosts.real.operator_commands import CONFIG
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

PUSH: Final = "git push origin main"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    # A tool that runs without its hook would pause the agent for the next test.
    return start_module_daemon(f'{CONFIG}unasked = "tell"\n')


@pytest.mark.parametrize(
    ("program", "way"),
    [
        pytest.param(program, way, id=f"{program.name}-{way.name}")
        for program in PROGRAMS
        for way in WAYS[program.host]
    ],
)
def test_the_hooks_with(
    program: Program,
    way: Way,
    daemon: RunningDaemon,
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", "left out" if way.leaves_out else "run")
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    with home.with_model():
        protect_and_leave_out(home, way, daemon)
        home.talk(_push(home), *way.options)

    assert home.pushed() == way.leaves_out, home.output


def _push(home: HostHome) -> Conversation:
    yield home.headless.shell(PUSH)
