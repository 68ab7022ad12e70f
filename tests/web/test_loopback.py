"""Both loopback addresses are ours at one port, so that no browser finds anybody else there."""

import errno
import os
import socket

import pytest

from safetyd.web.loopback import ADDRESSES, TRIES, fresh_name, listen_on_both


def closed(opened: list[socket.socket]) -> list[tuple[str, int]]:
    """Return where sockets listened, and let go of that."""
    where = [one.getsockname()[:2] for one in opened]
    for one in opened:
        one.close()
    return where


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    """Refuse to listen on `::1` so many times, like a system without IPv6."""
    create, refusals = socket.create_server, [number] * times

    def create_server(address: tuple[str, int], *, family: int) -> socket.socket:
        if address[0] == "::1" and refusals:
            raise OSError(refusals.pop(), "refused")
        return create(address, family=family)

    monkeypatch.setattr(socket, "create_server", create_server)


def test_every_start_has_another_name() -> None:
    names = {fresh_name() for _ in range(100)}

    assert len(names) == 100
    assert {len(name) for name in names} == {len("0123456789abcdef0123.localhost")}


@pytest.mark.parametrize(
    ("host", "first"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("localhost", "127.0.0.1")]
)
def test_both_have_the_same_port_and_the_one_that_was_asked_for_is_first(
    host: str, first: str
) -> None:
    where = closed(listen_on_both(host, 0))

    assert where[0][0] == first
    assert {address for address, _ in where} == set(ADDRESSES)
    assert len({port for _, port in where}) == 1


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_without_ipv6_there_is_one(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    refuse(monkeypatch, number, 1)

    assert [address for address, _ in closed(listen_on_both("127.0.0.1", 0))] == ["127.0.0.1"]


def test_any_port_is_one_that_is_free_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EADDRINUSE, TRIES - 1)

    assert len(closed(listen_on_both("127.0.0.1", 0))) == 2


@pytest.mark.parametrize(("number", "times"), [(errno.EADDRINUSE, TRIES), (errno.EACCES, 1)])
def test_a_port_that_stays_taken_is_an_error(
    monkeypatch: pytest.MonkeyPatch, number: int, times: int
) -> None:
    refuse(monkeypatch, number, times)

    with pytest.raises(OSError, match=os.strerror(number).lower()):
        listen_on_both("127.0.0.1", 0)


def test_after_a_refusal_the_first_address_is_free_again() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="address already in use") as refusal:
            listen_on_both("127.0.0.1", port)

    assert refusal.value.filename == f"[::1]:{port}"
    assert len(closed(listen_on_both("127.0.0.1", port))) == 2
