"""One proposal put to the daemon until there is an answer that is its own."""

from typing import Final

import anyio
import msgspec

from safetyd.client.down import Down, Lost
from safetyd.client.draft import Draft
from safetyd.client.link import Link, Listener
from safetyd.core.decision import Decision

# A held reply does not live through a restart of the daemon, so it is asked for again.
REPEAT_S: Final = 60.0
PAUSE_S: Final = 0.25

_read = msgspec.json.Decoder(Decision).decode


class Asking:
    """The same id is sent again after a break and every minute; the daemon decides it once."""

    def __init__(self, link: Link, draft: Draft) -> None:
        self._link = link
        self._draft = draft
        self._taken = False
        self.pending: Decision | None = None

    @property
    def where(self) -> str:
        return self._link.where

    async def answer(self) -> Decision:
        """Return the answer, for a waiting proposal the final one.

        Raises `Down` as soon as it is plain that nobody hears. Only a waiting proposal that may
        have been heard once outlasts that, since a person may be about to answer it.
        """
        with self._link.listen(self._draft.id) as listener:
            while True:
                try:
                    decision = await self._ask(listener)
                except Lost:
                    decision = None
                except Down:
                    if not (self._draft.wait and self._taken):
                        raise
                    await anyio.sleep(PAUSE_S)
                    continue
                if decision is not None:
                    return decision
                self._taken = True

    async def _ask(self, listener: Listener) -> Decision | None:
        await self._link.send("propose", self._draft.payload, listener)
        with anyio.move_on_after(REPEAT_S):
            while True:
                decision = self._own(await listener.hear())
                if decision is None:
                    continue
                if decision.status == "final" or not self._draft.wait:
                    return decision
                self.pending = decision
                self._taken = True
        return None

    def _own(self, data: bytes) -> Decision | None:
        """Return the decision if it is about this proposal; anything else is no answer."""
        try:
            decision = _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        draft = self._draft
        if (decision.agent, decision.id, decision.digest) != (draft.agent, draft.id, draft.digest):
            return None
        contradictory = decision.allowed and decision.status == "pending"
        return None if contradictory else decision
