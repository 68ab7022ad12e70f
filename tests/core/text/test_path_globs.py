import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.guards.rules import RulesConfig
from safetyd.core.text.path_globs import Globs, likely, path_words, place


@pytest.mark.parametrize(
    ("given", "path", "local"),
    [
        ("src/app.py", "/srv/web/src/app.py", "src/app.py"),
        ("/srv/web/src//./app.py", "/srv/web/src/app.py", "src/app.py"),
        ("src/../app.py", "/srv/web/app.py", "app.py"),
        ("", "/srv/web", "."),
        (".", "/srv/web", "."),
        ("../web/x", "/srv/web/x", "x"),
        ("../x", "/srv/x", None),
        ("/srv/website/x", "/srv/website/x", None),
        ("/srv/web/../../etc/shadow", "/etc/shadow", None),
        ("//etc/shadow", "/etc/shadow", None),
    ],
)
def test_a_path_is_resolved_from_the_root(given: str, path: str, local: str | None) -> None:
    for root in ("/srv/web", "/srv/web/", "//srv/./web"):
        found = place(given, root)

        assert (found.given, found.path, found.local, found.opaque) == (given, path, local, False)


def test_without_a_root_a_relative_path_stays_one() -> None:
    assert place("a/../b", "").path == "b"
    assert place("../b", "").path == "../b"
    assert place("/a", "").local is None


@given(st.text(alphabet="ab./", max_size=12))
def test_different_spellings_of_a_path_are_the_same(path: str) -> None:
    normal = posixpath.normpath(path)

    assert place(path, "").path == (normal[1:] if normal.startswith("//") else normal)


def test_everything_is_inside_the_root_of_all() -> None:
    assert place("/etc/hosts", "/").local == "etc/hosts"
    assert place("x", "/").local == "x"


@pytest.mark.parametrize("given", ["~/x", "~root/x", "$HOME/x", "/srv/web/$X", "a/${X}/b"])
def test_paths_with_shell_expansions_are_opaque(given: str) -> None:
    found = place(given, "/srv/web")

    assert found.opaque
    assert found.local is None


def test_a_tilde_elsewhere_is_part_of_a_name() -> None:
    assert place("notes.txt~", "/srv/web").local == "notes.txt~"


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/.ssh/**", "/home/a/.ssh/id"),
        ("**/.ssh/**", "/home/a/.ssh/b/c"),
        ("**/.ssh/**", "/home/a/.ssh"),
        ("**/.ssh/**", ".ssh/id"),
        ("**/.ssh/**", "~/.ssh/id"),
        ("**/*.pem", "/a/b.pem"),
        ("**/*.pem", "b.pem"),
        ("/etc/shadow", "/etc/shadow"),
        ("/etc/shadow", "//etc//shadow"),
        ("src/*.py", "src/a.py"),
        ("src/?.py", "src/a.py"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/x/y/b"),
        ("**", "anything/at all"),
        ("a**", "a/b"),
        ("pages/[id].tsx", "pages/[id].tsx"),
        ("**/x", "two\nlines/x"),
    ],
)
def test_a_glob_matches(glob: str, path: str) -> None:
    assert Globs([glob]).find(place(path, "")) == glob


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/.ssh/**", "/home/a/x.ssh/id"),
        ("**/.ssh/**", "/home/a/.sshd"),
        ("**/.env", "/a/.env.example"),
        ("src/*.py", "src/a/b.py"),
        ("src/*.py", "lib/src/a.py"),
        ("src/?.py", "src/ab.py"),
        ("a.b", "axb"),
        ("/etc/shadow", "/etc/shadow.d/x"),
        ("[id]", "i"),
    ],
)
def test_a_glob_does_not_match(glob: str, path: str) -> None:
    assert Globs([glob]).find(place(path, "")) is None


def test_the_first_matching_glob_is_returned() -> None:
    globs = Globs(["x/**", "**/b", "**/c"])

    assert globs.find(place("a/b", "")) == "**/b"
    assert globs.find(place("x/b", "")) == "x/**"
    assert globs.find(place("d", "")) is None
    assert Globs([]).find(place("d", "")) is None


def test_a_glob_may_match_the_path_relative_to_the_root() -> None:
    globs = Globs(["src/**"])

    assert globs.find(place("src/a", "/srv/web")) == "src/**"
    assert globs.find(place("/srv/web/src/a", "/srv/web")) == "src/**"
    assert globs.find(place("/srv/src/a", "/srv/web")) is None


def test_case_is_ignored_on_request() -> None:
    assert Globs(["**/.SSH"], ignore_case=True).find(place("a/.ssh", "")) == "**/.SSH"
    assert Globs(["**/.SSH"]).find(place("a/.ssh", "")) is None


def test_a_glob_with_an_exclamation_mark_excludes() -> None:
    globs = Globs(["**/.env.*", "!**/.env.example", "!b/**"])

    assert globs.find(place("a/.env.local", "")) == "**/.env.*"
    assert globs.find(place("a/.env.example", "")) is None
    assert globs.find(place("/srv/b/.env.x", "/srv")) is not None
    assert globs.find(place("b/.env.x", "")) is None
    assert Globs(["!a"]).find(place("b", "")) is None


def test_the_words_of_a_command_are_those_between_its_signs_without_quotes() -> None:
    said = path_words("cat<'/etc'/x;A=b:c,d@e|(f) f `g` \\\n{h}&")

    assert said == ("cat", "/etc/x", "A", "b", "c", "d", "e", "f", "f", "g", "h")


def test_a_word_with_dots_may_lead_to_the_root() -> None:
    assert [where.path for where in likely("../../etc/x", "")] == ["../../etc/x", "/etc/x"]
    assert [where.path for where in likely("~/../../.x", "")] == ["../.x", "/.x"]
    assert [where.path for where in likely("../x", "/srv/web")] == ["/srv/x"]
    assert [where.path for where in likely("..", "")] == [".."]


def test_globs_that_are_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match="too many or too long"):
        Globs(["x" * 10_000_000])


paths = st.lists(st.text(alphabet="ab/.~$\n", max_size=8), max_size=3)
globs = st.lists(st.sampled_from(["**/a/**", "**/.b", "/a", "a/**/b", "a*b", "?", "**", "a**"]))


@given(paths, globs)
def test_the_cheap_check_misses_nothing_that_a_glob_matches(
    paths: list[str], globs: list[str]
) -> None:
    known = Globs(globs)

    if known.miss(paths):
        assert [known.find(place(path, "")) for path in paths] == [None] * len(paths)


def test_the_cheap_check_passes_ordinary_paths() -> None:
    known = Globs(RulesConfig().sensitive_paths, ignore_case=True)

    assert known.miss(["src/app.py", "/srv/web/.github/ci.yml", "docs/a b/.hidden"])
    assert not known.miss(["src/app.py", "/home/a/.SSH/id"])
    assert not known.miss(["a/../b"])
    assert known.miss(["../b", "~/x"], resolved=True)
    assert not known.miss(["../.env"], resolved=True)
