from safetyd.hosts.name_owners import MAX_NAMES, NameOwners


def test_the_first_user_of_a_name_owns_it_however_many_names_another_invents() -> None:
    owners = NameOwners()
    assert owners.owner("alice", 1000) == 1000

    for number in range(2 * MAX_NAMES):
        assert owners.owner(f"name-{number}", 65534) == 65534

    assert owners.owner("alice", 65534) == 1000
    assert owners.owner("alice", 1000) == 1000


def test_names_that_a_user_no_longer_uses_become_free() -> None:
    owners = NameOwners()
    for number in range(MAX_NAMES + 1):
        owners.owner(f"name-{number}", 1000)

    assert owners.owner("name-1", 1001) == 1000
    assert owners.owner("name-0", 1001) == 1001
