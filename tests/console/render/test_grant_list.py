import pytest

from safetyd.cards.request_details import GrantOffer
from safetyd.console.render.grant_list import grant_offer, program_offer


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "nothing"),
        ({"approved": 1}, "1 request, all approved"),
        ({"approved": 5}, "5 requests, all approved"),
        ({"denied": 2}, "2 requests, all denied"),
        ({"approved": 5, "denied": 2}, "7 requests: 5 approved, 2 denied"),
    ],
)
def test_an_offer_says_what_became_of_the_same_in_the_last_week(counts, said):
    covers, week = grant_offer(GrantOffer(shape="make \x1b", **counts))

    assert covers == "It covers: make \\x1b"
    assert week == f"In the last week it would have covered {said}."


def test_an_unknown_program_is_offered_by_its_option():
    (said,) = program_offer(GrantOffer(shape="x y", program="x y"))

    assert said == "Nobody knows the program: --program covers all that x y is given."
    assert not list(program_offer(GrantOffer(shape="make")))
