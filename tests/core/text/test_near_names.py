from safetyd.core.text.near_names import meant

KNOWN = ("weekday", "night", "holiday")


def test_the_most_similar_name_is_suggested() -> None:
    assert meant("nigth", KNOWN) == "did you mean night?"


def test_without_a_similar_name_all_known_ones_are_listed_in_order() -> None:
    assert meant("xyz", KNOWN) == "known are holiday, night, weekday"
