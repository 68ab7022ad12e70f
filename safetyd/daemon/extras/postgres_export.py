"""Export of events to PostgreSQL, if an address is configured.

If psycopg is missing, its state says so.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from safetyd.core.events.event import Event
from safetyd.core.reporting.records import Records
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.postgres.postgres_exporter import PostgresExporter
from safetyd.monitoring.exporter_metrics import exporter_families
from safetyd.monitoring.metric_families import Family
from safetyd.operators.contract.status_contract import DaemonFacts


class PostgresExport(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        of = host.of
        config = of.settings.config.outlets.postgres
        self._exporter: PostgresExporter | None = None
        if config.dsn_file:
            self._exporter = PostgresExporter(
                config,
                of.data_dir,
                written=lambda: of.audit.seq,
                now=lambda: of.clock.now().at,
            )

    def observe(self, events: Sequence[Event]) -> None:
        if self._exporter:
            self._exporter.observe(events)

    async def run(self) -> None:
        if self._exporter:
            await self._exporter.run()

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        return replace(facts, outlets=(self._exporter.state,)) if self._exporter else facts

    def metrics(self) -> Iterator[Family]:
        if self._exporter:
            yield from exporter_families(self._exporter.state)


EXTRA = PostgresExport
