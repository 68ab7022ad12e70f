"""The outlets that are configured. None of them can keep a daemon from starting or deciding."""

from collections.abc import Sequence

import anyio

from safetyd.core.events.event import Event
from safetyd.daemon.resources import Resources
from safetyd.monitoring.outlet_state import OutletState
from safetyd.outlets.postgres.postgres_outlet import PostgresOutlet


class Outlets:
    """All of them, told together."""

    def __init__(self, of: Resources) -> None:
        config = of.settings.config.outlets
        self._outlets: list[PostgresOutlet] = []
        if config.postgres.dsn_file:
            self._outlets.append(
                PostgresOutlet(
                    config.postgres,
                    of.data_dir,
                    written=lambda: of.audit.seq,
                    now=lambda: of.clock.now().at,
                )
            )

    def observe(self, events: Sequence[Event]) -> None:
        for outlet in self._outlets:
            outlet.observe(events)

    def states(self) -> tuple[OutletState, ...]:
        return tuple(outlet.state for outlet in self._outlets)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for outlet in self._outlets:
                tasks.start_soon(outlet.run)
