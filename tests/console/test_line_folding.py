from safetyd.console.line_folding import fitted, quoted


def test_a_line_that_is_too_long_goes_on_behind_a_plus():
    assert quoted("abcdef\nxyz", columns=8) == ["  | abcd", "  + ef", "  | xyz"]


def test_wide_letters_do_not_break_out_of_their_line():
    assert quoted("日本語日本語", columns=10) == ["  | 日本語", "  + 日本語"]


def test_our_own_lines_are_folded_between_words_below_what_they_say():
    said = (
        "  stopped by  classify.high: push cannot be undone\nIn the agent's own words, all of them"
    )

    assert fitted(said, 32).splitlines() == [
        "  stopped by  classify.high:",
        "              push cannot be",
        "              undone",
        "In the agent's own words, all of",
        "    them",
    ]


def test_word_that_is_too_long_and_label_that_is_too_wide_still_fit():
    assert fitted("  " + "x" * 30, 20).splitlines() == ["  " + "x" * 18, "      " + "x" * 12]
    wide = fitted("  a very wide label  and its words", 20).splitlines()
    assert wide == ["  a very wide label", "      and its words"]


def test_words_of_an_agent_and_wide_letters_are_folded_where_they_are_too_long():
    assert fitted("  | abc defgh", 10).splitlines() == ["  | abc de", "  + fgh"]
    assert fitted("日本 語日本", 6).splitlines() == ["日本 ", "  + 語", "  + 日", "  + 本"]
