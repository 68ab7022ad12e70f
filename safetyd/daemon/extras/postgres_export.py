"""Export of events to PostgreSQL, if an address is configured.

If psycopg is missing, `status` reports it.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from safetyd.core.events.event import Event
from safetyd.core.reporting.records import Records
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.postgres.postgres_exporter import PostgresExporter
from safetyd.extras.postgres.shared_journal_id import share_journal_id
from safetyd.monitoring.metric_families import Family, counter_by, gauge_by
from safetyd.operators.contract.status_contract import DaemonFacts, ExporterState


class PostgresExport(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        self._of = of = host.of
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
            await self.follow()
            await self._exporter.run()

    async def follow(self) -> None:
        """Use the journal id of the other daemons, if there may be others."""
        if self._exporter and self._of.server is None:
            await share_journal_id(self._of.connections.main.client, self._of.data_dir)

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        return replace(facts, outlets=(self._exporter.state,)) if self._exporter else facts

    def metrics(self) -> Iterator[Family]:
        if self._exporter:
            yield from exporter_families(self._exporter.state)


def exporter_families(state: ExporterState) -> Iterator[Family]:
    name, last = state.name, state.last_success
    yield gauge_by(
        "outlet", "safetyd_outlet_lag_events", "Events not exported yet.", {name: state.behind}
    )
    yield gauge_by(
        "outlet",
        "safetyd_outlet_last_success_timestamp_seconds",
        "When the exporter last was up to date or exported events; 0 if never.",
        {name: 0.0 if last is None else last.timestamp()},
    )
    yield counter_by(
        ("outlet",), "safetyd_outlet_errors", "Failed exports.", [((name,), state.errors)]
    )


EXTRA = PostgresExport
