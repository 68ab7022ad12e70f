from safetyd.monitoring.metrics import Metrics, Sources
from safetyd.monitoring.outlet_metrics import outlet_families
from safetyd.monitoring.outlet_state import OutletState
from tests.story import NOON


def test_an_outlet_is_counted_and_without_one_nothing_is_said() -> None:
    behind = OutletState(
        name="postgres", seq=5, behind=7, last_success=NOON, errors=2, problem="down"
    )
    never = OutletState(name="other", seq=None, behind=9, last_success=None, errors=0, problem="")

    said = b"".join(
        Metrics("0", Sources(more=lambda: outlet_families((behind, never)))).slices()
    ).decode()

    assert 'safetyd_outlet_lag_events{outlet="postgres"} 7.0\n' in said
    assert 'safetyd_outlet_errors_total{outlet="postgres"} 2.0\n' in said
    last = "safetyd_outlet_last_success_timestamp_seconds"
    assert f'{last}{{outlet="postgres"}} {float(NOON.timestamp())!r}'[:60] in said
    assert f'{last}{{outlet="other"}} 0.0\n' in said
    assert b"outlet" not in b"".join(Metrics("0").slices())
