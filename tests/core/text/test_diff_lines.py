"""The kinds of lines of a diff."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.text.diff_lines import diff_lines, holds_diff

DIFF = """diff --git a/x.sql b/x.sql
index 1..2 100644
--- a/x.sql
+++ b/x.sql
@@ -1,3 +1,3 @@ create
 same
--- a comment that goes
+++ a counter that comes
\\ No newline at end of file"""


def test_each_line_has_its_kind() -> None:
    kinds = [line.kind for line in diff_lines(DIFF)]

    assert kinds == [
        *("file", "same", "file", "file", "hunk", "same", "removed", "added", "same"),
    ]


def test_a_patch_of_another_form_has_kinds_too() -> None:
    kinds = [line.kind for line in diff_lines("*** Update File: a\n@@\n-x\n+y\nIndex: b")]

    assert kinds == ["file", "hunk", "removed", "added", "file"]


@given(st.text(alphabet="+-@* \nx"))
def test_lines_together_are_the_text(text: str) -> None:
    assert "\n".join(line.text for line in diff_lines(text)) == text


@pytest.mark.parametrize(
    ("text", "holds"),
    [(DIFF, True), (f"git apply <<'E'\n{DIFF}\nE", True), ("- a\n+ b", False), ("", False)],
)
def test_a_text_with_only_plus_and_minus_signs_is_no_diff(text: str, *, holds: bool) -> None:
    assert holds_diff(text) is holds


def test_a_line_inside_a_hunk_is_no_file_name() -> None:
    begin, end = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n x\n", "\n@@ -9 +9 @@\n-a\n+b"
    removed = f"{begin}--- DROP TABLE users\n+++ GRANT ALL{end}"
    added = f"{begin}+++ GRANT ALL\n--- DROP TABLE users{end}"

    kinds = [[line.kind for line in diff_lines(text)] for text in (removed, added)]

    names = ["file", "file", "hunk"]
    assert kinds[0] == [*names, "same", "removed", "added", "hunk", "removed", "added"]
    assert kinds[1] == [*names, "same", "added", "removed", "hunk", "removed", "added"]


def test_a_diff_of_several_files_names_each() -> None:
    kinds = [
        line.kind
        for line in diff_lines("--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n--- b\n+++ b\n@@ -1 +1 @@")
    ]

    assert kinds == ["file", "file", "hunk", "removed", "added", "file", "file", "hunk"]
