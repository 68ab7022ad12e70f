"""Where patches are found in a proposal."""

import msgspec
import pytest

from safetyd.core.messages.proposal import Proposal
from safetyd.core.text.patches import MAX_FILES, NO_PATCH, read_patch
from safetyd.core.text.proposal_patches import may_patch, patch_of, says_executable
from tests.core.text.patch_samples import unified

ONE, TWO = unified("a/one", "b/one"), unified("a/two", "b/two")
MANY = "*** Begin Patch\n{}*** End Patch\n".format(
    "".join(f"*** Delete File: {number}\n" for number in range(MAX_FILES))
)


def touched(*, edits: bool = True, **fields: object) -> list[str]:
    proposal = Proposal(type="edit_file", **fields)  # type: ignore[arg-type]
    return [file.path for file in patch_of(proposal, edits=edits).files]


@pytest.mark.parametrize(
    "context",
    [
        {"diff": ONE},
        {"anything": ONE, "more": 7},
        {"edits": [{"patch": ONE}, 3]},
        {"diff": ONE.splitlines()},
        {"diff": ["", *ONE.splitlines(), ["nested"]]},
    ],
)
def test_a_patch_is_found_anywhere_in_a_proposal(
    context: dict[str, object],
) -> None:
    raw = msgspec.Raw(msgspec.json.encode(context))

    for said in (context, raw):
        assert touched(context=said) == ["one"]
        assert touched(extra=said, edits=False) == ["one"]


def test_a_text_counts_if_the_action_edits() -> None:
    assert touched(text=ONE) == ["one"]
    assert touched(text=ONE, edits=False) == []
    assert not may_patch(Proposal(type="x", text=ONE), edits=False)


def test_several_patches_are_combined() -> None:
    assert touched(text=ONE, context={"diff": TWO}) == ["one", "two"]
    both = Proposal(type="x", text=ONE[:-3], context={"diff": TWO[:-3]})
    assert patch_of(both, edits=True).problem == read_patch(ONE[:-3]).problem != ""
    assert patch_of(Proposal(type="x", context={"diff": "- a"}), edits=True) is NO_PATCH


def test_several_patches_of_too_many_files_are_a_problem() -> None:
    patch = patch_of(Proposal(type="x", text=ONE, context={"diff": MANY}), edits=True)

    assert len(patch.files) == MAX_FILES
    assert patch.problem


@pytest.mark.parametrize(
    ("context", "executable"),
    [
        ({"executable": True}, True),
        ({"mode": "755"}, True),
        ({"mode": "0755"}, True),
        ({"mode": "0o700"}, True),
        ({"mode": "100755"}, True),
        ({"mode": "0644"}, False),
        ({"mode": "100644", "executable": False}, False),
        ({"mode": "development"}, False),
        ({"mode": 493}, False),
        ({"executable": "yes"}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_context_can_make_a_file_executable(context: object, *, executable: bool) -> None:
    assert says_executable(Proposal(type="x", context=context)) is executable
