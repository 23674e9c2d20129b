"""JSON against type hints: a value of the type, or an error; never another type."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.json_types import from_json


@dataclass(frozen=True)
class Thing:
    name: str
    sizes: tuple[int, ...] = ()
    pair: tuple[str, bool] | None = None


THING = {"name": "a", "sizes": [1, 2], "pair": ["b", True]}
HINTS = (
    bool, int, float, str, Path, str | None, tuple[int, ...], tuple[int, str], Thing,
    Literal["on", "off"], Annotated[int, range(1, 10)], tuple[Thing, ...],
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("data", "hint", "expected"),
    [
        (THING, Thing, Thing("a", (1, 2), ("b", True))),
        ({**THING, "pair": None}, Thing, Thing("a", (1, 2))),
        ("on", Literal["on", "off"], "on"),
        (9, Annotated[int, range(1, 10)], 9),
        ([], tuple[int, ...], ()),
        ("/a/\udcff", Path, Path("/a/\udcff")),
    ],
)
def test_what_fits_is_a_value_of_the_type(data: Any, hint: Any, expected: Any) -> None:
    assert from_json(data, hint) == expected


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (True, int), (1, bool), (1, float), (1.0, int), ("1", int), (None, str),
        (10, Annotated[int, range(1, 10)]), (True, Annotated[int, range(1, 10)]),
        (["on"], Literal["on", "off"]), ("On", Literal["on", "off"]),
        ([1], tuple[int, str]), ([1, "a", 2], tuple[int, str]), ("ab", tuple[str, ...]),
        ({**THING, "more": 1}, Thing), ({"name": "a"}, Thing), ([THING], Thing),
        ("a", Path), ("/a\0", Path), ("/\ud800", Path), ("/" + "a" * 5000, Path),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error(data: Any, hint: Any) -> None:
    with pytest.raises(ValueError, match="invalid"):
        from_json(data, hint)


@given(JSON, st.sampled_from(HINTS))
def test_any_json_is_a_value_or_an_error(data: Any, hint: Any) -> None:
    try:
        value = from_json(json.loads(json.dumps(data)), hint)
    except ValueError:
        return
    if isinstance(hint, type) and hint is not Thing and hint is not Path:
        assert type(value) is hint
