"""The rota's calendar, if `[people.rota]` names one."""

from collections.abc import Iterator
from importlib.util import find_spec

from safetyd.core.reporting.records import Records
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.daemon.rota_source import calendar_request
from safetyd.extras.rota.calendar_process import INSTALL, NOT_INSTALLED, CalendarRequest
from safetyd.extras.rota.calendar_watch import CalendarWatch
from safetyd.operators.contract.status_contract import UnavailableExtra


class RotaCalendar(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        self._of = host.of
        self._watch = CalendarWatch(self._wanted, host.of.mailbox.put)

    async def prepare(self) -> None:
        self._watch.renew()

    async def run(self) -> None:
        await self._watch.run()

    def unavailable(self) -> Iterator[UnavailableExtra]:
        if self._calendar and find_spec("recurring_ical_events") is None:
            yield UnavailableExtra(name="rota calendar", why=NOT_INSTALLED, fix=INSTALL)

    @property
    def _calendar(self) -> str:
        return self._of.settings.config.people.rota.calendar

    def _wanted(self) -> tuple[str, CalendarRequest] | None:
        of = self._of
        request = calendar_request(of.settings.config, of.data_dir, of.clock.now().at)
        return None if request is None else (self._calendar, request)


EXTRA = RotaCalendar
