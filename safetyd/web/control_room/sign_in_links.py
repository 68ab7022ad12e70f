"""Sign-in links: each works once, for five minutes, under one host name.

A link or session becomes invalid as soon as any key that its operator had when it was created is
no longer valid.
"""

import secrets
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from safetyd.clock import uptime
from safetyd.web.control_room.web_sessions import KeysOf, are_good

LIFE_S: Final = 300.0
MAX_LINKS: Final = 20  # links of one operator; a new one replaces the oldest


class SignInLink(NamedTuple):
    """`name` is the link's host name. If it is empty, the link has the listener's address."""

    operator: str
    name: str
    until: float
    keys: AbstractSet[str]


class SignInLinks:
    def __init__(self, keys_of: KeysOf, now: Callable[[], float] = uptime) -> None:
        self._keys_of = keys_of
        self._now = now
        self._links: dict[str, SignInLink] = {}

    def make(self, operator: str, name: str) -> str:
        """Return the token of a new link for an operator."""
        token = secrets.token_urlsafe(24)
        self._links[token] = SignInLink(
            operator, name, self._now() + LIFE_S, frozenset(self._keys_of(operator))
        )
        now = self._now()
        self._links = {known: link for known, link in self._links.items() if now < link.until}
        own = [known for known, link in self._links.items() if link.operator == operator]
        for oldest in own[:-MAX_LINKS]:
            del self._links[oldest]
        return token

    def find(self, token: str, name: str) -> str | None:
        """Return the operator of a link, or None if it has expired or is for another host name."""
        link = self._links.get(token)
        if link is None or link.name != name or self._now() >= link.until:
            return None
        return link.operator if are_good(link.keys, self._keys_of(link.operator)) else None

    def use(self, token: str, name: str) -> str | None:
        """Return the operator of a link and use the link up, even under a wrong host name."""
        operator = self.find(token, name)
        self._links.pop(token, None)
        return operator
