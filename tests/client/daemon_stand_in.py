"""A fake daemon that speaks the protocol on a real bus, with answers from the test."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import anyio
import msgspec
from nats.aio.msg import Msg

from safetyd.bus.nats_client import HardenedClient
from safetyd.core.messages.notice_header import HEADER, VALUE
from safetyd.core.messages.proposal import digest, shortest

Fields = dict[str, Any]

_read = msgspec.json.Decoder(Fields, float_hook=shortest).decode


class Asked:
    """A proposal as the daemon received it."""

    def __init__(self, msg: Msg) -> None:
        self._msg = msg
        self.agent = msg.subject.rpartition(".")[2]
        self.fields: Fields = _read(msg.data)

    @property
    def id(self) -> str:
        return str(self.fields["id"])

    def answer(self, decision: str = "allow", **changes: Any) -> Fields:
        own = {"id": self.id, "agent": self.agent, "digest": digest(self.agent, self.fields)}
        return {**own, "decision": decision, **changes}

    async def reply(self, answer: Fields) -> None:
        await self._msg.respond(msgspec.json.encode(answer))


Answer = Callable[[Fields], Fields | None]
Decide = Callable[[Asked], Sequence[Fields]]
Note = Callable[[Fields], Fields | None]


def allow(asked: Asked) -> Sequence[Fields]:
    return [asked.answer()]


def silent(_: Asked) -> Sequence[Fields]:
    return []


def acknowledge(_: Fields) -> Fields | None:
    return {"ok": True}


def nothing(_: Fields) -> Fields | None:
    return None


class DaemonStandIn:
    def __init__(self, url: str, decide: Decide = allow, note: Note = acknowledge) -> None:
        self._url = url
        self.decide = decide
        self.note = note
        self.permit: Answer = nothing
        self.grant: Answer = nothing
        self._asked_in, self._asked = anyio.create_memory_object_stream[Asked](1000)
        self._told_in, self._told = anyio.create_memory_object_stream[Fields](2000)

    async def __aenter__(self) -> Self:
        self._nc = HardenedClient()  # its flush returns after the server processed everything
        await self._nc.connect(self._url, allow_reconnect=False)
        await self._nc.subscribe("safety.v1.propose.*", cb=self._on_propose)
        await self._nc.subscribe("safety.v1.telemetry.*", cb=self._on_telemetry)
        await self._nc.subscribe("safety.v1.permission.*", cb=self._on_permission)
        await self._nc.subscribe("safety.v1.claim.*", cb=self._on_claim)
        await self._nc.flush()
        await self._nc.rtt()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._nc.close()
        for stream in (self._asked_in, self._asked, self._told_in, self._told):
            stream.close()

    async def asked(self) -> Asked:
        """Wait for the next proposal and return it."""
        with anyio.fail_after(30):
            return await self._asked.receive()

    async def told(self, kind: str = "outcome") -> Fields:
        """Wait for the next telemetry of a kind and return it. Skip other kinds."""
        with anyio.fail_after(30):
            while (fields := await self._told.receive())["type"] != kind:
                pass
            return fields

    def untold(self) -> list[str]:
        """Return the kinds of received telemetry that `told` has not returned or skipped."""
        count = self._told.statistics().current_buffer_used
        return [str(self._told.receive_nowait()["type"]) for _ in range(count)]

    def unread(self) -> int:
        """Return the number of received proposals that `asked` has not returned."""
        return self._asked.statistics().current_buffer_used

    async def say(self, subject: str, fields: Fields, *, marked: bool = True) -> None:
        headers = {HEADER: VALUE} if marked else None
        payload = msgspec.json.encode(fields)
        await self._nc.publish(f"safety.v1.{subject}", payload, headers=headers)

    async def _on_propose(self, msg: Msg) -> None:
        asked = Asked(msg)
        self._asked_in.send_nowait(asked)
        for answer in self.decide(asked):
            await asked.reply(answer)

    async def _on_permission(self, msg: Msg) -> None:
        await _respond(msg, self.permit(_read(msg.data)))

    async def _on_claim(self, msg: Msg) -> None:
        await _respond(msg, self.grant(_read(msg.data)))

    async def _on_telemetry(self, msg: Msg) -> None:
        fields = _read(msg.data)
        noted = self.note(fields)
        self._told_in.send_nowait(fields)
        if msg.reply:
            await _respond(msg, noted)


async def _respond(msg: Msg, answer: Fields | None) -> None:
    if answer is not None:
        await msg.respond(msgspec.json.encode(answer))
