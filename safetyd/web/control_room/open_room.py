"""Connects the parts of the control room."""

from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple

from safetyd.clock import Clock
from safetyd.core.events.event import Event
from safetyd.core.guards.stop import Stop
from safetyd.operators.contract.cluster_contract import ClusterSummary
from safetyd.operators.contract.question import Role
from safetyd.web.control_room.room import ControlRoom
from safetyd.web.control_room.room_actions import RoomActions
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.visitors import Visitors
from safetyd.web.control_room.web_sessions import WebSessions
from safetyd.web.http_server import Guest, Routes
from safetyd.web.operator_gateway import OperatorGateway


class OpenRoom(NamedTuple):
    """`observe` gets committed events, `run` updates open pages, `guest` recognises sessions."""

    routes: Sequence[Routes]
    observe: Callable[[Sequence[Event]], None]
    run: Callable[[], Coroutine[object, object, None]]
    guest: Guest


def open_room(  # noqa: PLR0913 - each is another part of the daemon
    gateway: OperatorGateway,
    sessions: WebSessions,
    links: SignInLinks,
    clock: Clock,
    *,
    role_of: Callable[[str], Role | None],
    stops: Callable[[], tuple[Stop, ...]],
    closed: Callable[[], str],
    cluster: Callable[[], ClusterSummary] | None = None,
) -> OpenRoom:
    assets = RoomAssets()
    visitors = Visitors(sessions, links, role_of, assets, clock)
    room = ControlRoom(
        gateway, visitors, assets, clock, stops=stops, closed=closed, cluster=cluster
    )
    actions = RoomActions(gateway, visitors, clock)
    routes = (assets.routes, visitors.routes, room.routes, actions.routes)
    return OpenRoom(routes, room.live.observe, room.live.run, visitors.guest)
