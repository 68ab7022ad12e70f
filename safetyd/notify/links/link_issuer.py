"""Issue links and codes for messages, rotate their keys, and pair browsers."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

import anyio

from safetyd.bus.keyring import LOCAL_OPERATOR, KeyUnusable
from safetyd.clock import Clock
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Due
from safetyd.core.outbox.outbox import Outbox
from safetyd.host import Unusable
from safetyd.journal.mailbox import Carried, EventEnvelope, Mailbox, Plan
from safetyd.notify.links.sent_links import SentLinks
from safetyd.notify.links.signing_keys import LinkKeys
from safetyd.notify.links.tokens import MOST_DIGITS, LinkKey, Signer
from safetyd.notify.links.wrong_codes import WrongCodes
from safetyd.operators.contract.notification_contract import PairCommand, Paired, RotateCommand
from safetyd.operators.replies import DONE, Done, Refusal, refused

KEYS_LOOK_S: Final = 3600.0
# A code differs from the codes of this many pending requests. With more, two codes may be equal.
COMPARED: Final = 200

log = logging.getLogger("safetyd.links")


class LinkIssuer:
    """Makes and verifies links. `base_url` returns the start of their URLs.

    `relays` returns the relays that have a key. If there is one, links may lead to it.
    """

    def __init__(
        self,
        keys_file: Path,
        clock: Clock,
        mailbox: Mailbox,
        *,
        base_url: Callable[[], str],
        here_only: bool,
        relays: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.here_only = here_only  # links open on this machine only
        self._relays = relays
        self._clock = clock
        self._mailbox = mailbox
        self._keys = LinkKeys(keys_file)
        self._base_url = base_url
        self.signer = Signer(_first(self._keys, clock.now().at))
        self.sent_links = SentLinks(self.signer)
        self.wrong_codes = WrongCodes()

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        return f"{self._base_url()}/d/{self.signer.token(delivery, ref, recipient)}"

    def code(self, request_id: str, recipient: str, pending: Iterable[Request]) -> str:
        """Return a code that differs from those of pending requests. Relays need all its digits."""
        if self._relays():
            return self.signer.code(request_id, recipient, MOST_DIGITS)
        others = (request.id for request in islice(pending, COMPARED))
        return self.signer.shortest_code(request_id, recipient, others)

    async def run(self) -> None:
        """Rotate and reload the keys, forever."""
        while True:
            self.renew()
            await anyio.sleep(KEYS_LOOK_S)

    def observe(self, events: Sequence[Event]) -> None:
        """Record messages that are sent; called with durable events."""
        for event in events:
            if type(event) is Due:
                self.sent_links.note(event.delivery, event.recipient)

    def renew(self) -> None:
        """Reload the keys, and rotate them if due. If that fails, use the current keys."""

        def make(state: EngineState, moment: Moment) -> None:
            try:
                self._take_on(self._keys.keys(moment.at), state.outbox)
            except (OSError, KeyUnusable) as exc:
                log.error("cannot reload the keys of links: %s", exc)  # noqa: TRY400 - the error says why

        self._mailbox.put(EventEnvelope(make, lambda: None))

    def pair(self, _by: str, command: PairCommand) -> Plan[Paired | Refusal]:
        """Return a link that pairs a browser with a recipient."""

        def plan(state: EngineState, moment: Moment) -> Carried[Paired | Refusal]:
            if relays := self._relays():
                error = (
                    f"the owner of relay {min(relays)} could use a paired browser to approve. "
                    "Approve with the codes in notifications"
                )
                return Carried((), refused("relay", error))
            names = [person.name for person in state.policy.telling.recipients]
            name = command.recipient or (names[0] if names else LOCAL_OPERATOR)
            if names and name not in names:
                error = f"{name!r} is not one of {', '.join(names)}"
                return Carried((), refused("not_found", error))
            link = f"{self._base_url()}/d/{self.signer.pairing(name, moment.at)}"
            return Carried((), Paired(ok=True, recipient=name, link=link))

        return plan

    def rotate(self, by: str, command: RotateCommand) -> Plan[Done | Refusal]:
        """Sign with a new key."""

        def plan(state: EngineState, moment: Moment) -> Carried[Done | Refusal]:
            try:
                keys = self._keys.rotate(moment.at, revoke_now=command.revoke_now)
                self._take_on(keys, state.outbox)
            except (OSError, KeyUnusable) as exc:
                return Carried((), refused("unusable", str(exc)))
            log.warning("links are signed with a new key by=%r revoked=%s", by, command.revoke_now)
            return Carried((), DONE)

        return plan

    def _take_on(self, keys: Sequence[LinkKey], outbox: Outbox) -> None:
        self.signer.take_on(keys)
        self.sent_links.rebuild(outbox.deliveries())


def _first(keys: LinkKeys, at: datetime) -> Sequence[LinkKey]:
    try:
        return keys.keys(at)
    except KeyUnusable as exc:
        raise Unusable(str(exc)) from exc
