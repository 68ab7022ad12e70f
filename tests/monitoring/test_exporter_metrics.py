from msgspec.structs import replace

from safetyd.daemon.extras.postgres_export import exporter_families
from safetyd.monitoring.metrics import Metrics, Sources
from safetyd.operators.contract.status_contract import ExporterState
from tests.story import NOON

STATE = ExporterState(name="postgres", seq=5, behind=7, last_success=NOON, errors=2, problem="down")


def test_an_exporter_is_scraped_and_without_one_nothing_is_said() -> None:
    def scraped(state: ExporterState) -> str:
        metrics = Metrics("0", Sources(more=lambda: exporter_families(state)))
        return b"".join(metrics.slices()).decode()

    said, last = scraped(STATE), "safetyd_outlet_last_success_timestamp_seconds"
    assert 'safetyd_outlet_lag_events{outlet="postgres"} 7.0\n' in said
    assert 'safetyd_outlet_errors_total{outlet="postgres"} 2.0\n' in said
    assert f'{last}{{outlet="postgres"}} {float(NOON.timestamp())!r}'[:60] in said
    assert f'{last}{{outlet="postgres"}} 0.0\n' in scraped(replace(STATE, last_success=None))
    assert b"outlet" not in b"".join(Metrics("0").slices())
