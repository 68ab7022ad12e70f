"""The part of the NATS protocol that a load generator needs."""

import base64
import json
import secrets
import socket
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import nkeys

from benchmarks.proposals import SHORT, around_id


class Refused(Exception):
    """The server rejected us."""


class Proposer:
    """An agent that proposes one action after the other."""

    def __init__(self, url: str, key_file: str, agent: str = "bench") -> None:
        self._link = connect(url, key_file)
        self._subject = f"safety.v1.propose.{agent}"
        self._inbox = f"_INBOX.agent.{agent}.{secrets.token_hex(4)}"
        self._around = around_id(SHORT)

    def __enter__(self) -> Self:
        self._link.sendall(f"SUB {self._inbox} 1\r\n".encode())
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def propose(self) -> str:
        """Return the id of a proposal once it is answered."""
        id_ = secrets.token_hex(8)
        before, after = self._around
        body = before + id_.encode() + after
        head = f"PUB {self._subject} {self._inbox} {len(body)}\r\n"
        self._link.sendall(head.encode() + body + b"\r\n")
        answer = b""
        while f'"id":"{id_}"'.encode() not in answer:
            piece = self._link.recv(1 << 16)
            if not piece:
                raise Refused(f"the connection was closed after {answer[-200:]!r}")
            if b"PING\r\n" in piece:
                self._link.sendall(b"PONG\r\n")
            answer += piece
        return id_


def connect(url: str, key_file: str) -> socket.socket:
    """Return an accepted connection, with a key or anonymous."""
    address = urlsplit(url)
    link = socket.create_connection((address.hostname, address.port), timeout=5.0)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    info = json.loads(_line(link).removeprefix(b"INFO "))
    link.sendall(b"CONNECT " + json.dumps(_hello(info, key_file)).encode() + b"\r\nPING\r\n")
    answer = _line(link)
    if answer != b"PONG":
        raise Refused(f"{url} answered {answer!r} to CONNECT")
    return link


def _hello(info: dict[str, Any], key_file: str) -> dict[str, object]:
    hello: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "lang": "raw",
        "version": "1",
        "protocol": 1,
        "headers": True,
        "no_responders": True,
    }
    if not key_file:
        return hello
    pair = nkeys.from_seed(bytearray(Path(key_file).read_bytes().strip()))
    signature = base64.urlsafe_b64encode(pair.sign(info["nonce"].encode())).rstrip(b"=")
    return hello | {"nkey": pair.public_key.decode(), "sig": signature.decode()}


def _line(link: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\r\n"):
        byte = link.recv(1)
        if not byte:
            raise Refused(f"the connection was closed after {bytes(line)!r}")
        line += byte
    return bytes(line[:-2])
