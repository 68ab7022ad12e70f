import io

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from safetyd.keeping import encryption
from safetyd.keeping.encryption import (
    Decrypting,
    Encrypting,
    Sealing,
    WrongPassphrase,
    derived_key,
    fresh_sealing,
)

QUICK = Sealing(salt=bytes(16), nonce=bytes(12), n=2**14)


def encrypted(parts: list[bytes], header: bytes = b"head") -> bytes:
    file = io.BytesIO()
    encrypting = Encrypting(file, derived_key("a passphrase", QUICK), QUICK, header)
    for part in parts:
        assert encrypting.write(part) == len(part)
    encrypting.finish()
    return file.getvalue()


def test_another_program_reads_it_by_the_name_of_the_construction():
    key = derived_key("a passphrase", QUICK)

    assert AESGCM(key).decrypt(QUICK.nonce, encrypted([b"one ", b"two"]), b"head") == b"one two"


@pytest.mark.parametrize("header", [b"head", b"another"])
def test_it_is_read_with_the_same_header_only(header: bytes):
    whole = encrypted([b"x" * 1000])
    body, tag = whole[:-16], whole[-16:]
    key = derived_key("a passphrase", QUICK)
    decrypting = Decrypting(io.BytesIO(body), key, QUICK, header)

    assert decrypting.read(2000) == b"x" * 1000
    if header == b"head":
        decrypting.finish(tag)
    else:
        with pytest.raises(WrongPassphrase):
            decrypting.finish(tag)


def test_more_than_one_message_may_have_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(encryption, "MAX_BYTES", 10)

    assert encrypted([b"12345", b"67890"])
    with pytest.raises(OSError, match="move closed audit files away"):
        encrypted([b"12345", b"678901"])


def test_no_two_files_share_salt_or_nonce():
    one, two = fresh_sealing(), fresh_sealing()

    assert one.salt != two.salt
    assert one.nonce != two.nonce


@pytest.mark.parametrize(("name", "value"), [("n", 2**30), ("n", 2), ("r", 64), ("p", 100)])
def test_a_header_that_would_take_all_memory_is_refused(name: str, value: int):
    said = {**msgspec.to_builtins(fresh_sealing()), name: value}

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(said, Sealing)
