"""Keys that an object names twice: found by the kernel as by a decoder in Python."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from ggscope.readers.common import json_text
from ggscope.readers.common.json_text import Repeats, repeats, repeats_in

CASES = [
    ("{}", None),
    ("[]", None),
    ('{"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]}', None),
    ('{"a": "b", "b": "a", "c": "a\\": 1", "d": "{\\"a\\": 1, \\"a\\": 2}"}', None),
    ('{"a": 1, "a" : 2}', Repeats(1, 0, "a")),
    ('{"longer than eight": 1, "longer than nine!": 1}', None),
    ('{"longer than 8": 1, "longer than 8"\n:1}', Repeats(1, 0, "longer than 8")),
    ('{"a": [{"x": 1, "y": {"z": 1, "z": 2}, "x": 3}], "a": 0}', Repeats(3, 0, "z")),
    ('{"": 1, "": 2}', Repeats(1, 0, "")),
    ('{"ü": 1, "ü": 2}', Repeats(1, 0, "ü")),
    ('{"\\u0061": 1, "a": 2}', Repeats(1, 0, "a")),
    ("[" * 5 + '{"k": 1, "k": 1}' + "]" * 5, Repeats(1, 0, "k")),
    (json.dumps({f"k{i}": i for i in range(600)}), None),
    ('{"a":' * 70 + '{"b": 1, "b": 2}' + "}" * 70, Repeats(1, 0, "b")),
]  # fmt: skip

plain = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(st.sampled_from(["a", "b", "key", "a\\", 'q"']), inner))
    ),
    max_leaves=12,
)


def text_of(value: object) -> str:
    """Return JSON in which lists of pairs are objects, whatever their keys are."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        pairs = (f"{json.dumps(key)}: {text_of(part)}" for key, part in value)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return json.dumps(value)


@pytest.fixture(params=["kernel", "plain"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        oracles.json_repeats(monkeypatch)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize(("text", "expected"), CASES)
def test_repeated_keys_are_counted_and_the_first_is_named(
    text: str, expected: Repeats | None
) -> None:
    assert repeats_in(text.encode()) == expected


@pytest.mark.usefixtures("_way")
def test_element_of_the_first_one_is_reported() -> None:
    parts = ['{"a": 1}', '{"b": 1, "b": 2}', '{"c": 1, "c": 2, "c": 3}']
    text = ("[ " + ", ".join(parts) + " ]").encode()
    start = np.array([text.index(part.encode()) for part in parts])
    end = start + [len(part) for part in parts]

    result = repeats(np.frombuffer(text, np.uint8), start, end)

    assert result == Repeats(3, 1, "b")
    assert repeats(np.zeros(0, np.uint8), start[:0], end[:0]) is None


@given(plain)
def test_kernel_and_decoder_find_the_same_number(value: object) -> None:
    data = np.frombuffer(text_of(value).encode(), np.uint8)
    ends = np.array([0]), np.array([len(data)])

    result, expected = repeats(data, *ends), json_text.repeats_decoded(data, *ends)

    assert (result and result.count) == (expected and expected.count)
