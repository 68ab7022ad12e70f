"""Merges changes of the same key on two daemons.

`base` is what the daemon last had in common with the bucket, `local` is in its files, and `remote`
is in the bucket. A change on one side is taken. If both sides changed, a revocation wins, and
otherwise only what both sides trust is kept, besides the newest key of this daemon.
"""

import hashlib

import msgspec

from safetyd.bus.agent_tokens import Hashes, TokenHash
from safetyd.bus.key_entry import REVOKED, NameKeys
from safetyd.bus.keyring import OldKey


def merged(base: NameKeys | None, local: NameKeys, remote: NameKeys | None) -> NameKeys:
    """Return the keys of a name.

    Without a `base`, this daemon has never seen the entry, and the bucket wins: the files may be
    older than a revocation.
    """
    if remote is None:
        return local
    if base is None or local == base:
        return remote
    if remote in (base, local):
        return local
    if local.revoked or remote.revoked:
        return REVOKED
    public, old = _keys(base, local, remote)
    return NameKeys(public, old, _tokens(base.tokens, local.tokens, remote.tokens))


def merged_secret(base: str | None, local: str, remote: str) -> str:
    """Return a secret. `base` is a digest.

    If both sides changed, the one in the bucket wins, unless only the local one revokes others.
    """
    if base in (None, digest(local)):
        return remote
    if base == digest(remote):
        return local
    return local if revokes(local) and not revokes(remote) else remote


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class _LinkKey(msgspec.Struct):
    state: str = "active"


def revokes(secret: str) -> bool:
    """Return True if a secret is a list of link keys of which all but the newest are revoked."""
    try:
        keys = msgspec.json.decode(secret, type=list[_LinkKey])
    except msgspec.DecodeError:
        return False  # the key of telemetry
    return len(keys) > 1 and all(key.state == "revoked" for key in keys[:-1])


def _keys(
    base: NameKeys, local: NameKeys, remote: NameKeys
) -> tuple[str | None, tuple[OldKey, ...]]:
    was, ours, theirs = ((each.public, each.old) for each in (base, local, remote))
    if ours == was:
        return theirs
    if theirs == was:
        return ours
    ends = {key.public: key.until for key in remote.old}
    both = (key for key in local.old if key.public in ends)
    return local.public, tuple(OldKey(key.public, min(key.until, ends[key.public])) for key in both)


def _tokens(base: Hashes, local: Hashes, remote: Hashes) -> Hashes:
    if local == base:
        return remote
    if remote == base:
        return local
    theirs = {one.sha256: one for one in remote}
    older = (_sooner(one, theirs[one.sha256]) for one in local[1:] if one.sha256 in theirs)
    return (*local[:1], *older)


def _sooner(one: TokenHash, other: TokenHash) -> TokenHash:
    ends = [each.until for each in (one, other) if each.until is not None]
    return TokenHash(one.sha256, min(ends, default=None))
