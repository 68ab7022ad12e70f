"""Leaves tests that install real packages out, unless the expression of `-m` names them."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "packages" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("packages")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
