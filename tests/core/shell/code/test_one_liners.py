"""Languages that are not analysed: code needs approval unless it only replaces or prints text."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.one_liners import read_one_liner
from safetyd.core.shell.reading import HOLE, Code, Effect

HARMLESS: Final = [
    ("perl", "s/a/b/"),
    ("perl", r"s/(\d+)\n/$1out \u$2 \$x/g; s|/a$|/b|; y/a-z/A-Z/; tr#a#b#d;"),
    ("perl", "s/^(?<name>a|b$)$/{$&}/gmx\n"),
    ("perl", "print"),
    ("perl", r"""print "$_ $1\n", 'a$b', $F[0] . $F[-1] if /^a\/(b)$/i; next unless /c/"""),
    ("ruby", "puts $_ if /TODO/; p RUBY_VERSION"),
    ("php", "echo PHP_VERSION, 'a';"),
    ("lua", "print(_VERSION)"),
    ("r", "print(length('a'))"),
    ("julia", "using Statistics; println(mean([1,2,3])); println(1.5 + 2)"),
]
UNKNOWN: Final = [
    # Code in a replacement, in a pattern, in a string.
    ("perl", "s/a/system('id')/e"),
    ("perl", "s/a/b/gee"),
    ("perl", "s/a/$1[system('id')]/"),
    ("perl", "s/a/$&{system('id')}/"),
    ("perl", "s/a/$1->[system('id')]/"),
    ("perl", "s/a/@{[system('id')]}/"),
    ("perl", r"s/a/\\@{[system('id')]}/"),
    ("perl", "s/a/${\\system('id')}/"),
    ("perl", "s/a/$|[system('id')]/"),
    ("perl", "s/a/$ENV{API_TOKEN}/"),
    ("perl", "s/a/@ENV{API_TOKEN}/"),
    ("perl", "s/(?{system('id')})/b/"),
    ("perl", "s/(??{system('id')})/b/"),
    ("perl", "s/(*{system('id')})/b/"),
    ("perl", "s/$x[system('id')]/b/"),
    ("perl", "s/a/b/; system('id')"),
    ("perl", "s'a'b'e"),
    ("perl", "print if /(?{system('id')})/"),
    ("perl", "print /a/ / system('id')"),
    ("perl", "print \"$_[system('id')]\""),
    ("perl", "print \"$_'x[system('id')]\""),
    ("perl", "print \"$F[0][system('id')]\""),
    ("perl", 'print "@{[`id`]}"'),
    ("perl", "print'x;system(1);'"),
    ("perl", "print `id`"),
    ("perl", "print <*>"),
    ("ruby", "puts 1 if /#{system('id')}/"),
    ("ruby", "puts \"#{system('id')}\""),
    ("ruby", "s/system('id')/1/"),
    ("php", "'system'('id')"),
    ("php", "echo '<?php system(1) ?>';"),
    ("perl", "s|a\n#!perl\nsystem(1)|b|"),
    ("php", "echo ('system')('id');"),
    ("lua", "print([['..]] os.execute(1) --'"),
    ("lua", "print(1) --'\nos.execute(1) --'"),
    ("julia", "println([1]'; run(x); ')"),
    ("julia", "println(`id`)"),
    ("r", "\"system\"('id')"),
    # Code that is only known at run time.
    ("perl", f"s/a/{HOLE}/"),
    ("perl", f"s/{HOLE}/a/"),
    ("perl", f"s/a\\{HOLE}/a/"),
    ("perl", f"print '{HOLE}'"),
    ("perl", f'print "{HOLE}"'),
    # Everything else.
    ("perl", "unlink 'a'"),
    ("groovy", "print 1"),
]


@pytest.mark.parametrize(("language", "source"), HARMLESS)
def test_code_that_only_replaces_or_prints_text_is_allowed(language: str, source: str) -> None:
    assert read_one_liner(source, language) == Code()


@pytest.mark.parametrize(("language", "source"), UNKNOWN)
def test_all_other_code_needs_approval(language: str, source: str) -> None:
    assert [effect for effect, _ in read_one_liner(source, language).findings] == [Effect.UNKNOWN]


@given(st.sampled_from(HARMLESS), st.sampled_from(UNKNOWN), st.sampled_from([";", "\n", " ", ""]))
def test_harmless_code_cannot_hide_other_code(
    harmless: tuple[str, str], other: tuple[str, str], between: str
) -> None:
    source = harmless[1] + between + other[1]

    assert read_one_liner(source, other[0]).findings
