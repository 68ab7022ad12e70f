"""Grants, for stories about them."""

from datetime import datetime

from safetyd.core.events.request_events import Granted
from tests.story import at


def granted(
    t: float = 0,
    id: str = "grt_1",  # noqa: A002
    *,
    agent: str = "code",
    uses: int = 5,
    until: datetime | None = None,
    **fields: object,
) -> Granted:
    return Granted(
        at=at(t),
        t=float(t),
        id=id,
        agent=agent,
        by="alice",
        via="cli",
        reason="release day",
        uses=uses,
        until=until or at(t + 3600),
        **fields,  # type: ignore[arg-type]
    )
