"""Tokens that are not compared are named once, with the sides that have them."""

import pytest

from builders import token_trace
from ggscope.analysis.compare.compare import compare
from ggscope.descriptions.compare import matching_text, only_text, unmatched_tokens
from ggscope.model.trace import Trace
from ggscope.views.compare.rows import unmatched_rows


def run(n: int) -> Trace:
    return token_trace([(100 * i, 100 * i + 90, 50) for i in range(n)])


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((2,), (2,), ([], [], [])),
        ((3,), (1,), (["1", "2"], [], [])),
        ((1, 2), (4,), ([], ["2", "3"], ["1"])),
        ((1, 1), (2, 3), ([], ["1", "2"], [])),
        ((1, 3), (1, 2), (["2"], [], ["1"])),
    ],
)
def test_a_token_of_both_sides_is_not_said_to_be_of_one(
    a: tuple[int, ...], b: tuple[int, ...], expected: tuple[list[str], ...]
) -> None:
    comparison = compare([run(n) for n in a], [run(n) for n in b])

    assert unmatched_tokens(comparison) == expected
    rows = [(row[1].text, row[2].text) for row in unmatched_rows(comparison)]
    sides = zip(expected, ("A", "B", "both"), strict=True)
    assert rows == [(key, side) for keys, side in sides for key in keys]
    some = expected[2]
    assert any("not in every run" in line for line in only_text(comparison)) == bool(
        some
    )
    assert ("not in every run" in matching_text(comparison)) == bool(some)
