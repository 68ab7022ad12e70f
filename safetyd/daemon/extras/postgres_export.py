"""Export of events to PostgreSQL, if an address is configured.

A missing psycopg is one of the reasons why it takes nothing: its state says so everywhere.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from safetyd.core.events.event import Event
from safetyd.core.reporting.records import Records
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.postgres.postgres_outlet import PostgresOutlet
from safetyd.monitoring.metrics import Family
from safetyd.monitoring.outlet_metrics import outlet_families
from safetyd.operators.contract.status_contract import DaemonFacts


class PostgresExport(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        of = host.of
        config = of.settings.config.outlets.postgres
        self._outlet: PostgresOutlet | None = None
        if config.dsn_file:
            self._outlet = PostgresOutlet(
                config,
                of.data_dir,
                written=lambda: of.audit.seq,
                now=lambda: of.clock.now().at,
            )

    def observe(self, events: Sequence[Event]) -> None:
        if self._outlet:
            self._outlet.observe(events)

    async def run(self) -> None:
        if self._outlet:
            await self._outlet.run()

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        return replace(facts, outlets=(self._outlet.state,)) if self._outlet else facts

    def metrics(self) -> Iterator[Family]:
        if self._outlet:
            yield from outlet_families((self._outlet.state,))


EXTRA = PostgresExport
