"""The daily reports of a daemon: made when asked for, kept once a day is over, and sent."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from safetyd.extras.reports.report_keeper import ReportDelivery, ReportKeeper
from safetyd.extras.reports.report_maker import ReportMaker
from safetyd.host import Spare
from safetyd.journal.mailbox import Envelope

DIRECTORY: Final = "reports"


class ReportService:
    """`now` is in the zone that days are of."""

    def __init__(
        self,
        data_dir: Path,
        *,
        now: Callable[[], datetime],
        written: Callable[[], int],
        delivery: Callable[[], ReportDelivery],
        put: Callable[[Envelope], None],
        spare: Callable[[Path], Spare],
    ) -> None:
        maker = ReportMaker(data_dir / "audit", lambda: now().date(), written)
        self.handlers = maker.handlers
        self._keeper = ReportKeeper(data_dir / DIRECTORY, maker, now, delivery, put, spare)

    async def run(self) -> None:
        """Keep and send reports for ever."""
        await self._keeper.run()
