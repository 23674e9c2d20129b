"""Blocks, brackets and places of JSON texts."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.readers.common.json_cursor import JsonCursor
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    JsonTooLargeError,
    MemoryText,
    fault_in,
    locate,
    parse_json,
    without_paste,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
ANYTHING = msgspec.json.Decoder(list[dict])  # type: ignore[type-arg]


def cursor(text: str | bytes, block: int = 1 << 20, value: int = 1 << 22) -> JsonCursor:
    data = text.encode() if isinstance(text, str) else text
    return JsonCursor(MemoryText(data), block_bytes=block, value_bytes=value)


def elements(text: str, block: int = 1 << 20, value: int = 1 << 22) -> list[object]:
    elements: list[object] = []
    for part in cursor(text, block, value).blocks():
        elements += [json.loads(element) for element, _ in part.texts()]
    return elements


def lines(text: str | bytes, block: int = 1 << 20) -> list[tuple[int, bytes]]:
    lines = []
    for part in cursor(text, block).lines():
        assert part.line is not None
        for number, (line, _) in zip(part.line.tolist(), part.texts(), strict=True):
            lines.append((number, line))
    return lines


BRACKETS = st.text(alphabet='"\\[]{}a,', max_size=40)


@given(
    st.lists(JSON | BRACKETS | st.fixed_dictionaries({"k": BRACKETS}), max_size=8),
    st.integers(1, 60),
    st.sampled_from([None, 1]),
)
@settings(max_examples=80)
def test_array_elements_are_the_same_for_every_block_size(
    values: list[object], block: int, indent: int | None
) -> None:
    text = json.dumps(values, indent=indent)

    assert elements(text, block) == values


def test_array_of_objects_is_decoded_in_one_call() -> None:
    (block,) = cursor('[{"a": 1}, {"a": 2}\n]').blocks()

    assert block.decode_array(ANYTHING) == [{"a": 1}, {"a": 2}]
    assert block.data.tobytes() == b'{"a": 1}, {"a": 2}\n]'


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[1]",
        '[1, {"a": 1}]',
        '[{"a": 1}, 2]',
        '[{"a": nope}]',
    ],
)
def test_block_of_anything_but_objects_is_not_decoded_in_one_call(text: str) -> None:
    (block,) = cursor(text).blocks()

    assert block.decode_array(ANYTHING) is None


def test_array_in_blocks_of_one_byte_gives_each_offset() -> None:
    text = ' [ {"a":1} ,{"b":"]"},3 ]'

    places = [at for block in cursor(text, 1).blocks() for _, at in block.texts()]

    assert places == [3, 12, 22]


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("[1 2]", "Expecting ',' delimiter", 3),
        ("[1,,2]", "Expecting value", 3),
        ("[,1]", "Expecting value", 1),
        ("[1,]", "Expecting value", 3),
        ("[{} {}]", "Expecting ',' delimiter", 4),
        ("[{}}", "Expecting ',' delimiter", 3),
        ("[{},", "Expecting value", 4),
        ("[", "Expecting value", 1),
        ("1", "Expecting value", 0),
        ('[{"a":1}, {"b', "Unterminated string starting at", 11),
    ],
)
def test_broken_array_names_fault_and_offset(
    text: str, message: str, offset: int
) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        elements(text)

    assert (caught.value.text, caught.value.offset) == (message, offset)


def test_element_larger_than_the_limit_is_refused() -> None:
    with pytest.raises(JsonTooLargeError) as caught:
        elements('[{"a": "' + "x" * 500 + '"}]', 16, 64)

    assert caught.value.offset == 1


def test_fault_far_before_the_limit_is_a_syntax_error() -> None:
    text = '[{"a": x"' + '{"b": 1},' * 100 + "]"

    with pytest.raises(JsonSyntaxError) as caught:
        elements(text, 16, 64)

    assert caught.value.offset == 7


def test_white_space_longer_than_a_block_is_passed_over() -> None:
    assert elements("[" + " " * 100 + "1" + " " * 100 + ', "a,b" ]', 8) == [1, "a,b"]


def members(text: str) -> list[tuple[str, bytes, int]]:
    at = cursor(text)
    return [(key, *at.value()) for key in at.members()]


def test_members_come_with_text_and_offset() -> None:
    result = members(' {"a": 1.5 , "b":"x}\\"", "\\u0063": {"d": [1]}, "e": true}')

    assert result == [
        ("a", b"1.5", 7),
        ("b", b'"x}\\""', 17),
        ("c", b'{"d": [1]}', 35),
        ("e", b"true", 52),
    ]


def test_members_of_an_empty_object_are_none() -> None:
    assert members(" { } ") == []


@pytest.mark.parametrize(
    ("text", "message", "offset", "at_end"),
    [
        ("[]", "Expecting value", 0, False),
        ("", "Expecting value", 0, True),
        ("{a: 1}", "Expecting property name enclosed in double quotes", 1, False),
        ('{"a" 1}', "Expecting ':' delimiter", 5, False),
        ('{"a": 1', "Expecting ',' delimiter", 7, True),
        ('{"a": 1 "b"}', "Expecting ',' delimiter", 8, False),
        ('{"a": 1]', "Expecting ',' delimiter", 7, False),
        ('{"a": }', "Expecting value", 6, False),
        ('{"a": ', "Expecting value", 6, True),
        ('{"a', "Unterminated string starting at", 1, True),
        ('{"a": {"b": 1', "Expecting ',' delimiter", 13, True),
        ('{"\\q": 1}', "Invalid \\escape", 2, False),
    ],
)
def test_broken_object_names_fault_and_offset(
    text: str, message: str, offset: int, at_end: bool
) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        members(text)

    error = caught.value
    assert error.text.startswith(message)
    assert (error.offset, error.at_end) == (offset, at_end)


@pytest.mark.parametrize("value", ['"' + "x" * 9000 + '"', "[" + "1," * 99999 + "1]"])
def test_value_larger_than_the_limit_is_refused(value: str) -> None:
    at = cursor(value, value=1024)

    with pytest.raises(JsonTooLargeError):
        at.value()


def test_value_longer_than_the_first_look_is_whole() -> None:
    for value in ('"' + "x" * 9000 + '"', "1" * 3000, json.dumps([[1] * 40_000])):
        assert cursor(value + " ").value() == (value.encode(), 0)


def test_peek_over_much_white_space_finds_the_value() -> None:
    at = cursor(" " * 100_000 + "7")

    assert at.peek() == b"7"
    assert at.position == 100_000


def test_lines_are_numbered_without_blank_ones() -> None:
    text = b'{"a":1}\r\n\n  \n{"b":2}\n\r\n{"c":3}'

    assert lines(text) == [
        (1, b'{"a":1}'),
        (3, b"  "),
        (4, b'{"b":2}'),
        (6, b'{"c":3}'),
    ]


@given(
    st.lists(st.text(alphabet="ab{}\r ", max_size=12), max_size=12),
    st.integers(1, 40),
    st.booleans(),
)
@settings(max_examples=80)
def test_lines_are_the_same_for_every_block_size(
    texts: list[str], block: int, ends: bool
) -> None:
    text = "\n".join(texts) + ("\n" if ends else "")

    expected = [
        (i, line.removesuffix("\r").encode())
        for i, line in enumerate(text.split("\n"), 1)
        if line.removesuffix("\r")
    ]
    assert lines(text, block) == expected


@pytest.mark.parametrize("end", ["\n[]\n", "", "\n"])
def test_line_larger_than_the_limit_is_an_empty_block(end: str) -> None:
    at = cursor("{}\n" + "x" * 500 + end, 16, 64)

    pairs = [(b.overlong, b.line.tolist()) for b in at.lines() if b.line is not None]

    assert pairs == [(False, [1]), (True, [2])] + ([(False, [3])] if "[" in end else [])


def decoded_lines(text: str) -> list[object] | None:
    (block,) = cursor(text).lines()
    return block.decode_lines(msgspec.json.Decoder(dict))


def test_lines_are_decoded_in_one_call() -> None:
    assert decoded_lines('{"a":1}\n\n{"b":2}\r\n') == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    "text",
    ['{"a":1} {"b":2}\n', '{"a":\n1}\n', "7\n", '{"a":1\n', '{"a":x}\n', "{}}\n"],
)
def test_lines_that_are_no_objects_are_not_decoded_in_one_call(text: str) -> None:
    assert decoded_lines(text) is None


@pytest.mark.parametrize("text", ["1\n2", "", "ä\nöü x", "\n\n", "ab"])
def test_locate_counts_as_the_standard_library_does(text: str) -> None:
    data = text.encode()
    for position in range(len(text) + 1):
        error = json.JSONDecodeError("", text, position)

        place = locate(MemoryText(data), len(text[:position].encode()))

        assert (place.line, place.column, place.char) == (
            error.lineno,
            error.colno,
            error.pos,
        )


def test_locate_beyond_the_end_stops_there() -> None:
    assert locate(MemoryText(b"ab\nc"), 99).char == 4


def test_locate_across_blocks_counts_every_line() -> None:
    data = b"line\n" * 2_000_000

    place = locate(MemoryText(data), len(data) - 2)

    assert (place.line, place.column) == (2_000_000, 4)


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_not_a_number_is_refused_by_name(name: str) -> None:
    with pytest.raises(json.JSONDecodeError, match=f"not JSON: {name}:") as caught:
        parse_json(f"[{name}]")

    assert caught.value.pos == 1

    assert fault_in(f'{{"a": {name}}}'.encode(), 100).offset == 106


def test_fault_in_what_only_other_parsers_refuse_names_its_start() -> None:
    assert (fault_in(b"[1]", 7).text, fault_in(b"[1]", 7).offset) == ("Invalid JSON", 7)


def test_fault_in_deep_nesting_says_so() -> None:
    assert fault_in(b"[" * 100_000, 3).text == "Nested too deeply"


def test_not_a_number_at_the_start_names_its_place() -> None:
    assert fault_in(b"NaN", 5).offset == 5


def test_very_long_integers_become_floats() -> None:
    assert parse_json("1" + "0" * 30) == 10**30
    assert parse_json("1" + "0" * 5000) == float("inf")


def test_paste_marks_turn_to_spaces_of_equal_length() -> None:
    text = b'json\nCopy code\n{"a": "// kept \\" //", // gone\n'
    text += b'/* and\nthis */"b": 1}\n```\n'

    cleaned = without_paste(text)

    assert json.loads(cleaned) == {"a": '// kept " //', "b": 1}
    assert len(cleaned) == len(text)
    assert [i for i, c in enumerate(text) if c == 10] == [
        i for i, c in enumerate(cleaned) if c == 10
    ]
