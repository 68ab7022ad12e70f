"""The users of agents without a token: the first user of a name owns it."""

from collections import OrderedDict
from typing import Final

MAX_NAMES: Final = 256  # of one user


class NameOwners:
    """Names that one user invents displace only names of that user."""

    def __init__(self) -> None:
        self._owners: dict[str, int | None] = {}
        self._names: dict[int | None, OrderedDict[str, None]] = {}

    def user_of(self, name: str) -> int | None:
        """Return the user who owns a name, or None if it is free."""
        return self._owners.get(name)

    def owner(self, name: str, user: int | None) -> int | None:
        """Return the user who owns a name; a free name now belongs to `user`."""
        if name in self._owners and self._owners[name] != user:
            return self._owners[name]
        names = self._names.setdefault(user, OrderedDict())
        names[name] = None
        names.move_to_end(name)
        self._owners[name] = user
        if len(names) > MAX_NAMES:
            del self._owners[names.popitem(last=False)[0]]
        return user
