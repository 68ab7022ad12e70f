"""Daily reports, computed from the audit files, stored and sent."""

from datetime import datetime
from typing import Final

from safetyd.core.reporting.records import Records
from safetyd.daemon.disk_space import spare
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.reports.report_keeper import ReportDelivery, ReportKeeper
from safetyd.extras.reports.report_maker import ReportMaker
from safetyd.notify.address_book import report_readers
from safetyd.operators.handlers import Handlers

DIRECTORY: Final = "reports"


class DailyReports(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        of = host.of

        def delivery() -> ReportDelivery:
            tables = of.settings.tables
            return ReportDelivery(tables.notifications.report_at, report_readers(tables))

        def now() -> datetime:
            return of.clock.now().at.astimezone(of.settings.policy.zone)

        self._maker = ReportMaker(of.data_dir / "audit", lambda: now().date(), lambda: of.audit.seq)
        self._keeper = ReportKeeper(
            of.data_dir / DIRECTORY,
            self._maker,
            now,
            delivery,
            of.mailbox.put,
            lambda directory: spare(of.settings.config.disk, directory),
        )

    @property
    def handlers(self) -> Handlers:
        return self._maker.handlers

    async def run(self) -> None:
        await self._keeper.run()


EXTRA = DailyReports
