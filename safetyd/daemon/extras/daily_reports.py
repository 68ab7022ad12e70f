"""Daily reports, made of the audit files, stored and sent."""

from safetyd.core.reporting.records import Records
from safetyd.daemon.disk_space import spare
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.reports.report_keeper import ReportDelivery
from safetyd.extras.reports.report_service import ReportService
from safetyd.notify.address_book import report_readers
from safetyd.operators.handlers import Handlers


class DailyReports(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        of = host.of

        def delivery() -> ReportDelivery:
            tables = of.settings.tables
            return ReportDelivery(tables.notifications.report_at, report_readers(tables))

        self._service = ReportService(
            of.data_dir,
            now=lambda: of.clock.now().at.astimezone(of.settings.policy.zone),
            written=lambda: of.audit.seq,
            delivery=delivery,
            put=of.mailbox.put,
            spare=lambda directory: spare(of.settings.config.disk, directory),
        )

    @property
    def handlers(self) -> Handlers:
        return self._service.handlers

    async def run(self) -> None:
        await self._service.run()


EXTRA = DailyReports
