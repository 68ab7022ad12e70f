import pytest

from safetyd.console.render.delivery_tables import went_well
from safetyd.operators.contract.notification_contract import DeliveryRow
from tests.console.render.answers import AT, delivery
from tests.filled import filled


@pytest.mark.parametrize(
    ("fields", "without_click", "with_click"),
    [
        ({"opened_at": AT}, True, True),
        ({"opened_at": None}, True, False),
        ({"state": "dead", "opened_at": AT}, False, False),
    ],
)
def test_a_test_went_well_if_it_arrived_and_its_link_was_opened_where_that_is_wanted(
    *, fields: dict[str, object], without_click: bool, with_click: bool
) -> None:
    row = filled(DeliveryRow, **delivery(**fields))

    assert went_well(row, click_wanted=False) is without_click
    assert went_well(row, click_wanted=True) is with_click
