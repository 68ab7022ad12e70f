"""Two daemons change the same key, and nothing is trusted that one of them no longer trusts."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from safetyd.bus.agent_tokens import TokenHash
from safetyd.bus.key_entry import REVOKED, NameKeys
from safetyd.bus.key_merge import digest, merged, merged_secret
from safetyd.bus.keyring import OldKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PUBLIC = ["U" + letter * 55 for letter in "ABCD"]
HASHES = [letter * 64 for letter in "0123"]
LATER = [NOW + timedelta(hours=hours) for hours in (1, 2)]


def rotated(public: str, *old: str, until: datetime = LATER[1]) -> NameKeys:
    return NameKeys(public, tuple(OldKey(key, until) for key in old))


K0 = rotated(PUBLIC[0])
old_keys = st.lists(
    st.builds(OldKey, st.sampled_from(PUBLIC), st.sampled_from(LATER)),
    unique_by=lambda key: key.public,
    max_size=3,
).map(tuple)
hashes = st.lists(
    st.builds(TokenHash, st.sampled_from(HASHES), st.none() | st.sampled_from(LATER)),
    unique_by=lambda one: one.sha256,
    max_size=3,
).map(tuple)
keys = st.builds(NameKeys, st.none() | st.sampled_from(PUBLIC), old_keys, hashes)


def trusted(name: NameKeys) -> set[str]:
    return {name.public or "", *(key.public for key in name.old), *(t.sha256 for t in name.tokens)}


@given(keys, keys, keys)
def test_a_merge_trusts_only_what_one_side_has_and_keeps_no_revoked_key(
    base: NameKeys, local: NameKeys, remote: NameKeys
) -> None:
    result = merged(base, local, remote)

    assert trusted(result) <= trusted(local) | trusted(remote) | {""}
    if local not in (base, remote) and remote != base and (local.revoked or remote.revoked):
        assert result == REVOKED
    # A key that one side dropped is not trusted, unless the other side has just made it its newest.
    dropped = trusted(base) - (trusted(local) & trusted(remote)) - {""}
    fresh = {local.public, remote.public, *(t.sha256 for t in (*local.tokens[:1], *remote.tokens))}
    assert not dropped & trusted(result) - fresh


@given(keys, keys)
def test_a_change_on_one_side_is_taken(base: NameKeys, changed: NameKeys) -> None:
    assert merged(base, changed, base) == changed
    assert merged(base, base, changed) == changed
    assert merged(base, changed, changed) == changed


@given(keys, keys)
def test_a_daemon_that_never_saw_an_entry_takes_it(local: NameKeys, remote: NameKeys) -> None:
    assert merged(None, local, remote) == remote
    assert merged(None, local, None) == local


def test_of_two_rotations_the_later_key_wins_and_the_strict_one_ends_the_old_key() -> None:
    with_overlap, at_once = rotated(PUBLIC[1], PUBLIC[0]), rotated(PUBLIC[2])

    assert merged(K0, with_overlap, at_once) == rotated(PUBLIC[1])
    assert merged(K0, at_once, with_overlap) == at_once


def test_a_new_token_and_a_new_key_do_not_exclude_each_other() -> None:
    tokened = NameKeys(PUBLIC[0], (), (TokenHash(HASHES[0]),))

    assert merged(K0, tokened, rotated(PUBLIC[1])) == NameKeys(PUBLIC[1], (), tokened.tokens)
    assert merged(K0, rotated(PUBLIC[1]), tokened) == NameKeys(PUBLIC[1], (), tokened.tokens)


def test_revoked_links_stay_revoked_when_both_daemons_changed_their_keys() -> None:
    base = '[{"kid":"a"}]'
    renewed = '[{"kid":"a","state":"verify"},{"kid":"b"}]'
    revoked = '[{"kid":"a","state":"revoked"},{"kid":"b"}]'

    assert merged_secret(digest(base), revoked, renewed) == revoked
    assert merged_secret(digest(base), renewed, revoked) == revoked
    assert merged_secret(digest(base), revoked, base) == revoked
    assert merged_secret(digest("k"), "l", "m") == "m"
