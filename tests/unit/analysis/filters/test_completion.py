"""What may come next in a filter that is being typed."""

import pytest

from ggscope.analysis.filters.completion import FIELDS, MAX_CANDIDATES, complete
from ggscope.analysis.filters.text import parse_filter

VALUES = {
    "ops": ["MUL_MAT", "MUL", "ADD", "MUL_MAT_ID"],
    "layers": [0, 1, 10, 11],
    "threads": ["thread 0", "thread 1"],
    "tensors": ["blk.0.attn_q.weight", "cache_k_l0 (view)", 'with "quotes"'],
    "buffers": [0x55D0],
    "phases": [0, 1],
}


def completed(text: str, cursor: int | None = None) -> tuple[str, tuple[str, ...]]:
    """Return what is completed of a text, and by what."""
    cursor = len(text) if cursor is None else cursor
    result = complete(text, cursor, lambda field: VALUES.get(field, []))
    assert 0 <= result.start <= result.end <= len(text)
    return text[result.start : result.end], result.candidates


@pytest.mark.parametrize(
    ("text", "begun", "expected"),
    [
        ("o", "o", ("op=", "offset=")),
        ("la", "la", ("layer=",)),
        ("du", "du", ("dur>",)),
        ("op=MUL_MAT la", "la", ("layer=",)),
        ("not (th", "th", ("thread=",)),
        ("op=MUL_MAT o", "o", ("op=", "offset=", "or")),
        ("op=AD", "AD", ("ADD",)),
        ("op=mul", "mul", ("MUL_MAT", "MUL", "MUL_MAT_ID")),
        ("op=ADD, mul_mat_", "mul_mat_", ("MUL_MAT_ID",)),
        ("op=mat_i", "mat_i", ("MUL_MAT_ID",)),
        ("layer=1", "1", ("1", "10", "11")),
        ("layer!=1", "1", ("1", "10", "11")),
        ("thread=", "", ('"thread 0"', '"thread 1"')),
        ('thread="thr', '"thr', ('"thread 0"', '"thread 1"')),
        ("phase=g", "g", ("generate",)),
        ("quality=d", "d", ("derived",)),
        ("buffer=0x5", "0x5", ("0x55d0",)),
        ("dur>1", "1", ("1us", "10us", "100us", "1ms", "10ms")),
    ],
)
def test_field_or_value_that_is_begun_is_completed(
    text: str, begun: str, expected: tuple[str, ...]
) -> None:
    found_begun, result = completed(text)

    assert found_begun == begun
    assert result[: len(expected)] == expected or set(expected) <= set(result)


def test_fields_are_offered_where_nothing_is_typed() -> None:
    assert completed("") == ("", tuple(f"{f}{sign}" for f, sign in FIELDS.items()))
    assert completed("op=ADD ")[1] == ()


def test_value_that_is_whole_is_not_offered() -> None:
    assert completed("op=ADD")[1] == ()


def test_cursor_within_the_text_completes_there() -> None:
    text = "op=MU layer=3"
    begun, texts = completed(text, 5)

    assert begun == "MU"
    assert "MUL_MAT" in texts


def test_unknown_field_offers_nothing() -> None:
    assert completed("laier=1")[1] == ()


def test_many_values_are_cut() -> None:
    result = complete("token=", 6, lambda _: list(range(100_000)))

    assert len(result.candidates) == MAX_CANDIDATES


@pytest.mark.parametrize(
    "text",
    ["op=", "layer=", "thread=", "tensor=", "buffer=", "phase=", "source=",
     "quality=", "family=", "dur>", "size>", "wait>"],
)  # fmt: skip
def test_every_completion_is_understood(text: str) -> None:
    _, texts = completed(text)

    assert texts
    for word in texts:
        assert parse_filter(text + word)
