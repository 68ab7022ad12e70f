"""Which files a patch touches, and what it does to them."""

import shutil
import string
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetyd.core.text.patches import MAX_FILES, NO_PATCH, PatchedFile, read_patch
from tests.core.text.patch_samples import CHANGED, LINES, Repository, named_by_git, unified
from tests.cost import ratio

PATCH = unified("a/src/app.py", "b/src/app.py")
ENVELOPE = "*** Begin Patch\n{}*** End Patch\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    names = ("src/a.py", "src/my file.py", "src/ü.py", "run.sh", 'odd\t"name"')
    return Repository(tmp_path, {name: f"{LINES}{name}\n" for name in names})


def deeds(text: str) -> dict[str, str]:
    patch = read_patch(text)
    assert patch.problem == ""
    return {file.path: file.deed for file in patch.files}


def paths(text: str) -> list[str]:
    return [file.path for file in read_patch(text).files]


def touched(text: str) -> set[str]:
    return {way for file in read_patch(text).files for way in file.readings}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--binary",),
        ("--no-prefix",),
        ("--src-prefix=old/", "--dst-prefix=new/"),
        ("--no-renames", "--unified=0"),
        ("--patch-with-stat", "--full-index"),
        ("--find-renames", "--irreversible-delete"),
    ],
)
def test_output_of_git_is_parsed_with_any_options(
    repository: Repository, options: Sequence[str]
) -> None:
    repository.write({"src/a.py": CHANGED, "src/my file.py": CHANGED, "src/ü.py": CHANGED})
    repository.write({"new/x.py": "x\n", "empty": ""})
    (repository.folder / "image").write_bytes(b"\0\1")
    (repository.folder / 'odd\t"name"').unlink()

    found = deeds(repository.diff(*options))

    assert found == {
        "src/a.py": "changes",
        "src/my file.py": "changes",
        "src/ü.py": "changes",
        "new/x.py": "creates",
        "empty": "creates",
        "image": "creates",
        'odd\t"name"': "deletes",
    }


def test_moves_copies_and_mode_changes_are_found_without_hunks(
    repository: Repository,
) -> None:
    repository.git("mv", "src/my file.py", "src/other name.py")
    shutil.copy(repository.folder / "src/a.py", repository.folder / "src/twin.py")
    (repository.folder / "run.sh").chmod(0o755)
    (repository.folder / "tool").write_text("#!/bin/sh\n")
    (repository.folder / "tool").chmod(0o755)
    (repository.folder / "way").symlink_to("/etc")

    patch = read_patch(repository.diff("--find-copies-harder"))

    assert patch.problem == ""
    found = {file.path: (file.deed, file.executable, file.link) for file in patch.files}
    assert found == {
        "src/my file.py": ("moves", False, False),
        "src/other name.py": ("creates", False, False),
        "src/a.py": ("copies", False, False),
        "src/twin.py": ("creates", False, False),
        "run.sh": ("changes", True, False),
        "tool": ("creates", True, False),
        "way": ("creates", False, True),
    }


def test_losing_a_mode_or_a_link_is_not_gaining_one(repository: Repository) -> None:
    script, link = repository.folder / "run.sh", repository.folder / "way"
    script.chmod(0o755)
    link.symlink_to("/etc")
    repository.commit()
    script.write_text(CHANGED)
    link.unlink()

    changed = read_patch(repository.diff()).files
    script.chmod(0o644)
    lost = read_patch(repository.diff()).files

    for files in (changed, lost):
        assert [(file.executable, file.link) for file in files] == [(False, False)] * 2


def test_a_link_with_another_target_is_a_link(repository: Repository) -> None:
    link = repository.folder / "way"
    link.symlink_to("src")
    repository.commit()
    link.unlink()
    link.symlink_to("/etc")

    (file,) = read_patch(repository.diff()).files

    assert (file.path, file.deed, file.link) == ("way", "changes", True)


def test_mails_of_git_are_parsed(repository: Repository) -> None:
    repository.write({"src/a.py": CHANGED})
    repository.commit()
    repository.write({"b/c.py": "c\n"})
    repository.commit()

    mails = repository.git("format-patch", "--stdout", "-2")

    assert deeds(mails) == {"src/a.py": "changes", "b/c.py": "creates"}
    assert deeds(mails.replace("\n", "\r\n")) == {"src/a.py": "changes", "b/c.py": "creates"}


def test_a_merge_is_parsed(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side")
    repository.write({"src/a.py": LINES.replace("5", "side")})
    repository.commit()
    repository.git("checkout", "--quiet", "main")
    repository.write({"src/a.py": CHANGED})
    repository.commit()
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "side")
    repository.write({"src/a.py": LINES.replace("5", "both")})
    repository.commit()

    for option in ("--cc", "-c"):
        assert paths(repository.git("show", option)) == ["src/a.py"]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/x/y.py", "b/x/y.py", "x/y.py"),
        ("i/x/y.py", "w/x/y.py", "x/y.py"),
        ("x/y.py", "x/y.py", "x/y.py"),
        ("a/y.py", "a/y.py", "a/y.py"),
        ("/etc/x", "/etc/x", "/etc/x"),
        ("a/../../x", "b/../../x", "../../x"),
        ("a//etc/x", "b//etc/x", "/etc/x"),
        ("a/x\t2026-11-16 10:00:00.000000000 +0000", "b/x\tMon Nov 16 10:00:00 2026", "x"),
        ("a/x 2026-11-16 10:00:00", "b/x 2026-11-16T10:00", "x"),
        ("x\t(revision 7)", "x\t(working copy)", "x"),
        ("a/my file", "b/my file", "my file"),
        ('"a/\\303\\274\\t\\"\\\\\\q"', '"b/\\303\\274\\t\\"\\\\\\q"', 'ü\t"\\q'),
        ('"a/x"\t2026', '"b/x"\t2026', "x"),
        ("a/x", "/dev/null", "x"),
        ("/dev/null", "b/x", "x"),
        ("x ", "x", "x"),
        ("x\0y", "x", "x"),
        ('"a/x\\000y"', '"b/x\\0y"', "x"),
    ],
)
def test_names_are_parsed_without_prefixes_and_time_stamps(old: str, new: str, path: str) -> None:
    for text in (unified(old, new), unified(old, new).replace("\n", "\r\n")):
        assert paths(text) == [path]
        assert read_patch(text).problem == ""


def test_a_name_has_every_path_that_a_program_may_use() -> None:
    assert touched(unified("a/x/y z", "b/x/y z")) == {
        *("x/y z", "a/x/y z", "b/x/y z", "x/y", "a/x/y", "b/x/y"),
    }
    assert paths(unified("a/one", "b/two")) == ["one", "two"]
    assert "x 2026-11-16 10:00/.bashrc" in touched(unified(*["x 2026-11-16 10:00/.bashrc"] * 2))
    assert touched(unified("/dev/null 1970-01-01 00:00", "b/x")) == {"x", "b/x"}


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("a/x b/x", "x"),
        ("x x", "x"),
        ("a/x y b/x y", "x y"),
        ("x y x y", "x y"),
        ('"a/x" "b/x"', "x"),
        ('"a/x" b/x', "x"),
        ('a/x "b/x"', "x"),
    ],
)
def test_the_first_line_of_git_is_enough_to_name_a_file(line: str, path: str) -> None:
    assert paths(f"diff --git {line}\nold mode 100644\nnew mode 100755\n") == [path]


def test_context_diffs_and_those_of_subversion_are_parsed() -> None:
    context = (
        "*** a/x.py\t2026\n--- b/x.py\t2026\n***************\n"
        "*** 1,2 ****\n! a\n  b\n--- 1,2 ----\n! c\n  b\n"
    )

    assert touched(context) == {"x.py", "a/x.py", "b/x.py"}
    assert paths("Index: trunk/y.py\n" + "=" * 67 + "\n") == ["trunk/y.py"]
    assert paths("Index: y.py\n@@ -1 +1 @@\n-a\n+b\n") == ["y.py"]
    assert paths("Index: y.py\n1,2c1\n< a\n---\n> b\n") == ["y.py"]
    for sign in ("+++", "---", "***"):
        assert paths(f"{sign} b/y.py\n@@ -1 +1 @@\n-a\n+b\n") == ["y.py"]
    kept = "Index: z\ndiff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n"
    assert set(paths(kept)) == {"z", "x"}
    assert set(paths("*** note\n" + unified("a/x", "/dev/null"))) == {"note", "x"}


def test_begin_patch_is_parsed() -> None:
    body = (
        "*** Add File: new.py\n+--- a/no.py\n+++ b/no.py\n"
        "*** Update File: src/a.py\n*** Move to: src/b.py\n@@ def f():\n-a\n+b\n c\n\n"
        "*** End of File\n*** Update File: c.py\n@@\n-a\n+b\n*** Delete File: old.py\n"
    )

    found = deeds("apply_patch <<'EOF'\n" + ENVELOPE.format(body) + "EOF\n")

    assert found == {
        "new.py": "creates",
        "src/a.py": "moves",
        "src/b.py": "creates",
        "c.py": "changes",
        "old.py": "deletes",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print('+++ b/x')\n",
        "+++\ntitle = 'front matter'\n+++\n--- \n***\n",
        "a *** b ***\n***************\n==========\n",
        "# A heading\n\n--- a dash, and then words\n*** stars\n",
        "@@ -1,2 +1,2 @@\n-a\n+b\n c\n",
        "***\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n",
        "+++ x\n",
        "Index: 5 of 7\nnew mode x\nrename from x\ndiff --stat\nBinary files\n",
        "    +++ a\n    ++++ b\n*** ",
        "*** End Patch\n*** Move on\n",
    ],
)
def test_ordinary_text_is_no_patch(text: str) -> None:
    assert read_patch(text) is NO_PATCH


@pytest.mark.parametrize(
    "text",
    [
        "--- a/x\n+++ b/x\n",
        PATCH[:-3],
        "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n",
        "--- a/x\n+++ b/x\n@@ -1,9",
        f"{PATCH}+more\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n+a\n+b\n c\n",
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\nb\n",
        "diff --git a/x b/x\n",
        "diff --git a/x b/x\nindex 12..34 100644\n--- a/x\n",
        "diff --git a/x y b/z w\nold mode 100644\nnew mode 100755",
        'diff --git "a/x b/x\nnew file mode 100755\n--- "a',
        'diff --git "a/x" "b/x\nnew file mode 100755\n',
        'diff --git a/x b/x\nrename from "x\n',
        "diff --git a/x b/x\nnew file mode 10075\n",
        "*** Begin Patch\n*** Add File: x\n+a\n",
        ENVELOPE.format("*** Rename File: x\n"),
        ENVELOPE.format("*** Update File: x\nno sign\n"),
        "*** Add File: x\n+a\n",
        "*** Update File: x\n*** Move to: y\n",
    ],
)
def test_a_cut_or_malformed_patch_is_a_problem(text: str) -> None:
    assert read_patch(text).problem


def test_stripped_blank_lines_are_no_problem() -> None:
    assert read_patch("--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n a\n+b").problem == ""


def test_a_patch_inside_another_text_may_be_incomplete() -> None:
    manual = "So it looks:\n\n```diff\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n ...\n```\n"

    assert (paths(manual), read_patch(manual).problem) == (["x"], "")
    assert paths("said: \n*** Update File: x\n") == ["x"]


def test_files_are_found_with_and_without_counting_lines_of_hunks() -> None:
    inside = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n" + unified("a/hidden", "b/hidden")
    loose = "--- a/x\n+++ b/x\n@@ ... @@\n a\n --- a/no\n-b\n" + unified("a/y", "b/y")

    assert paths(inside) == ["hidden", "x"]
    assert "longer" not in read_patch(inside).problem != ""
    assert deeds(loose) == {"x": "changes", "y": "changes"}
    assert deeds("--- a/x\n+++ b/x\n@@ @@\n-a\n+b\n") == {"x": "changes"}


def test_indented_patches_are_parsed() -> None:
    indented = "".join(f"    {line}\n" for line in PATCH.splitlines())

    assert deeds(f"{PATCH}\nand\n{indented}") == {"src/app.py": "changes"}
    assert deeds(indented) == {"src/app.py": "changes"}
    assert paths("\ufeffdiff --git a/x b/x\nnew file mode 100644\n") == ["x"]
    assert paths(ENVELOPE.format("\u00a0*** Add File: x\n")) == ["x"]


def test_one_file_that_is_named_twice_is_one_file() -> None:
    text = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n" + unified("/dev/null", "b/x")

    assert read_patch(text).files == (
        PatchedFile(readings=("x", "b/x", "a/x"), deed="creates", executable=True),
    )


def test_more_files_than_a_proposal_may_have_paths_are_a_problem() -> None:
    text = ENVELOPE.format("".join(f"*** Delete File: {n}\n" for n in range(MAX_FILES + 1)))

    patch = read_patch(text)

    assert len(patch.files) == MAX_FILES
    assert patch.problem


names = st.text(string.ascii_letters + '._-ü "\\\t', min_size=1, max_size=8).map(str.strip)
parts = st.lists(names.filter(bool), min_size=1, max_size=4)


@st.composite
def sections(draw: st.DrawFn, path: str) -> str:
    """Return a part of a patch that touches one file."""
    old, new = draw(st.sampled_from([("a/", "b/"), ("", ""), ("x/", "y/"), ("i/", "w/")]))
    tail = draw(st.sampled_from(["", "\t", "\t2026-11-16 10:00:00 +0000"]))
    hunk = draw(st.sampled_from(["@@ -1 +1 @@\n-a\n+b\n", "@@ -0,0 +1,2 @@\n+--- z\n++++ z\n"]))
    either = draw(st.booleans())
    return draw(
        st.sampled_from(
            [
                f"--- {old}{path}{tail}\n+++ {new}{path}{tail}\n{hunk}",
                f"--- {old}{path}{tail}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
                f"diff --git {old}{path} {new}{path}\nold mode 100644\nnew mode 100755\n",
                f"diff --git {old}q {new}{path}\nrename from q\nrename to {path}\n",
                f"Index: {path}\n{'=' * 67}\n",
                ENVELOPE.format(f"*** {'Add' if either else 'Update'} File: {path}\n+a\n"),
            ]
        )
    )


@given(st.data())
def test_a_file_is_found_whatever_is_around_it(data: st.DataObject) -> None:
    path = ".github/workflows/ci.yml"
    others = data.draw(st.lists(st.sampled_from(["src/a.py", "b.txt", "c/d/e"]), max_size=4))
    order = data.draw(st.permutations([path, *others]))
    around = data.draw(st.sampled_from(["", "Some words\n", "```diff\n", "\n\n", "-- \n2.39\n"]))
    text = around.join(data.draw(sections(each)) for each in order) + around
    text = text.replace("\n", data.draw(st.sampled_from(["\n", "\r\n"])))

    assert path in touched(text)


HEADERS = (
    *("diff --git a/x b/x", "diff --git a/x y b/x y", 'diff --git "a/\\056x" "b/\\056x"'),
    *("old mode 100644", "new mode 100755", "new file mode 100755", "deleted file mode 100644"),
    *("--- a/x", "+++ b/x", "--- /dev/null", "+++ /dev/null", "--- y", "+++ y"),
    *('--- "a/\\056z"', '+++ "b/\\056z"', "+++ b/w\t2026-11-16", "--- a/q 2026-11-16 10:00"),
    *("rename from q", "rename to r", "copy from s", "copy to t", "similarity index 100%"),
    *("@@ -1 +1 @@", "@@ -0,0 +1 @@", "-a", "+b", " c", "", "-- ", "Index: i", "*** j"),
    *("index 123..456 100644", "GIT binary patch", "Binary files a/x and b/x differ"),
)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(HEADERS), min_size=2, max_size=12))
def test_every_file_that_git_would_touch_is_found(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    text = "\n".join(lines) + "\n"

    for option in ("-p0", "-p1"):
        for name in named_by_git(tmp_path_factory.getbasetemp(), text, option):
            assert name in touched(text) | {"/dev/null", "dev/null"}


@given(parts)
def test_a_quoted_name_is_what_was_quoted(path: list[str]) -> None:
    name = "/".join(path)
    octal = "".join(f"\\{byte:03o}" for byte in name.encode())

    assert touched(f'diff --git "a/{octal}" "b/{octal}"\nnew mode 100755\n') >= {name}


@given(st.text(alphabet='-+* @ab/\n\t"\\,01=diffgtmoenwrxIndex:BgPch', max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    for begun in (text, f"diff --git {text}", f"*** Begin Patch\n{text}", f"{PATCH}{text}"):
        patch = read_patch(begun)

        assert all(file.readings and file.path for file in patch.files)


@pytest.mark.parametrize(
    "piece",
    [
        "\n",
        "+a\n",
        "--- a/x\n",
        "--- a/x\n+++ b/x\n",
        PATCH,
        "diff --git a b\n",
        "diff --git " + " " * 500 + "\n",
        '--- "\\\\\\\n',
        "*** Begin Patch\n*** Delete File: x\n",
        "*" * 15 + "\n",
        "Index: x\n" + "*" * 15 + "\n",
        "diff --git a b\nnew mode 100755\nrename from x\n",
        "@@ -1,999999 +1,999999 @@\n",
        " " * 999 + "\n",
        "--- a/x\n+++ b/x\n@@ -1,999999999 +1,999999999 @@\n",
    ],
)
def test_parsing_takes_linear_time(piece: str) -> None:
    short, long = (f"{PATCH[:40]}{piece * (size // len(piece))}" for size in (15_000, 60_000))
    turns = iter(range(1_000_000))

    cost = ratio(
        lambda: read_patch(f"{long}{next(turns)}"), lambda: read_patch(f"{short}{next(turns)}")
    )

    assert cost < 4 * 3
