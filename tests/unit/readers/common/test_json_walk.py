"""Walking a JSON file: exact numbers, lists handed out, faults that end it."""

from decimal import Decimal
from pathlib import Path

import pytest

from ggscope.errors import CorruptError, LimitExceededError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.readers.api import ReadContext
from ggscope.readers.buffers import events_jsonl, timeline_json
from ggscope.readers.common import csv_rows, json_walk
from ggscope.readers.common.json_cursor import first_element_keys, outer_keys
from ggscope.readers.common.json_walk import JsonRoot, integer_of, note_fault, walk_root
from ggscope.readers.experts import moe_csv
from ggscope.readers.graph import dot as graph_dot
from ggscope.readers.graph import json as graph_json
from ggscope.readers.source import Source
from side_files import sound_routing


def walk(
    folder: Path, text: str | bytes, **sizes: int
) -> tuple[JsonRoot, list[object], TraceBuilder]:
    path, builder, taken = folder / "x.json", TraceBuilder(), []
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with Source(path) as source:
        take = {"rows": taken.append}
        walked = walk_root(source, ReadContext(), builder, take, **sizes)
    return walked, taken, builder


def test_elements_are_handed_out_and_the_rest_is_kept(tmp_path) -> None:
    text = b'\xef\xbb\xbf{"a": {"b": 1.10}, "rows": [{"t": 1.10}, 2, null], "c": [3]}'

    walked, taken, _ = walk(tmp_path, text)

    assert taken == [{"t": Decimal("1.10")}, 2, None]
    assert walked.facts == {"a": {"b": Decimal("1.10")}, "c": [3]}
    assert walked.lists == {"rows"}
    assert walked.fault is None


@pytest.mark.parametrize(
    ("text", "n"),
    [('{"rows": [{"a": 1}, {"a" 2}]}', 1), ("[1]", 0)],
    ids=["colon", "list"],
)
def test_fault_ends_the_walk_behind_what_was_taken(tmp_path, text, n) -> None:
    walked, taken, _ = walk(tmp_path, text)

    assert walked.fault is not None
    assert taken == [{"a": 1}] * n


@pytest.mark.parametrize(
    ("value", "is_seen_as"),
    [("{\"a\": NaN}", {"a": None}), ("{\"a\": -Infinity}", {"a": None}),
     ("{\"a\": 1e99999999999999999999}", {"a": None}),
     ("{\"a\": " + "9" * 5000 + "}", {"a": None}),
     ("{\"a\":" * 9000 + "1" + "}" * 9000, None),
     (r'{"a": "x\ud800y", "b": "\\ud800\ud83d\ude00"}',
      {"a": "x\ufffdy", "b": "\\ud800😀"})],
    ids=["nan", "infinity", "exponent", "digits", "depth", "half a pair"],
)  # fmt: skip
def test_what_json_does_not_have_costs_no_more_than_itself(
    tmp_path, value, is_seen_as
) -> None:
    text = f'{{"rows": [{{"a": 1}}, {value}, {{"a": 2}}], "f": {value}, "g": 3}}'

    walked, taken, builder = walk(tmp_path, text)

    assert walked.fault is None
    assert taken == [{"a": 1}, is_seen_as, {"a": 2}]
    assert walked.facts == {"f": is_seen_as, "g": 3}
    (note,) = builder.warnings
    assert (note.code, note.count, note.place) == ("odd_value", 2, "rows[1]")
    assert note.offset == text.index(value)


@pytest.mark.parametrize(
    ("text", "n", "place"),
    [('{"rows": [{"a": 1}, {"a": 1, "b": {"c": 0, "c": 2, "c": 1}}]}', 2, "rows[1].c"),
     ('{"rows": [{"a": ":"}], "m": 1, "m": {"x": 0, "x": 1}}', 2, "m"),
     ('{"rows": [], "rows": [{}]}', 1, "rows")],
    ids=["element", "facts", "list"],
)  # fmt: skip
def test_key_that_occurs_twice_is_reported(tmp_path, text, n, place) -> None:
    walked, taken, builder = walk(tmp_path, text)

    (note,) = builder.warnings
    assert walked.fault is None
    assert len(taken) >= 1
    assert (note.code, note.count, note.place) == ("duplicate_key", n, place)
    assert 0 < note.offset < len(text)


def test_large_value_is_left_out_and_reported(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(json_walk, "_DECODED_BYTES", 40)
    long = '{"a": "' + "x" * 50 + '"}'

    walked, taken, builder = walk(
        tmp_path, f'{{"rows": [1, {long}, 2], "f": {long}, "g": 1}}'
    )

    assert taken == [1, None, 2]
    assert walked.facts == {"f": None, "g": 1}
    (note,) = builder.warnings
    assert (note.code, note.count, note.place) == ("large_value", 2, "rows[1]")


def test_fault_behind_odd_bytes_lies_within_the_file(tmp_path) -> None:
    text = b'{"rows": [1], "x": ["' + b"\xe2" * 9 + b'"}'

    walked, _, _ = walk(tmp_path, text)

    assert walked.fault is not None
    assert walked.fault.offset == len(text) - 1


def test_odd_bytes_are_replaced_and_counted(tmp_path) -> None:
    _, taken, builder = walk(tmp_path, b'{"rows": [{"a": "x\xff"}]}')

    assert taken == [{"a": "x\ufffd"}]
    (note,) = builder.warnings
    assert (note.code, note.offset) == ("bad_utf8", 18)


def test_fault_without_anything_before_it_is_an_error(tmp_path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"rows": [1')
    with Source(path) as source:
        walked = walk_root(source, ReadContext(), TraceBuilder(), {})
        assert walked.fault is not None
        with pytest.raises(TruncatedError, match="line 1 column 12"):
            note_fault(TraceBuilder(), source, walked.fault, "0 rows", 0)


def test_huge_value_is_beyond_the_limit(tmp_path) -> None:
    text = '{"rows": [{"a": "' + "x" * 5000 + '"}]}'

    with pytest.raises(LimitExceededError, match="larger than 256 bytes"):
        walk(tmp_path, text, block_bytes=64, value_bytes=256)


@pytest.mark.parametrize(
    ("module", "name", "reader"),
    [
        (graph_json, "g.json", graph_json.GraphJsonReader()),
        (graph_dot, "g.dot", graph_dot.GraphDotReader()),
        (events_jsonl, "b.jsonl", events_jsonl.BufferStatsReader()),
        (timeline_json, "b.json", timeline_json.BufferTimelineReader()),
    ],
)
def test_file_beyond_the_limit_is_refused(
    tmp_path, monkeypatch, module, name, reader
) -> None:
    (tmp_path / name).write_text("{}" * 20)
    monkeypatch.setattr(module, "MAX_BYTES", 30)

    with (
        Source(tmp_path / name) as source,
        pytest.raises(LimitExceededError, match="larger than"),
    ):
        reader.read(source, ReadContext())


def test_endless_line_of_a_table_is_refused(tmp_path, monkeypatch) -> None:
    path = tmp_path / "moe.csv"
    path.write_text(sound_routing() + "1" * 5000)
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1000)

    with Source(path) as source, pytest.raises(CorruptError, match="line is longer"):
        moe_csv.MoeCsvReader().read(source, ReadContext())


def test_outline_sees_keys_up_to_the_cut() -> None:
    text = b'\xef\xbb\xbf {"a": 1, "rows": [{"x": 1, "y": {"z": 2}}, 3], "c": {"d'

    assert outer_keys(text) == {"a", "rows", "c"}
    assert first_element_keys(text, "rows") == {"x", "y"}
    assert first_element_keys(text, "a") == frozenset()
    assert first_element_keys(text, "none") == frozenset()
    assert outer_keys(b"[1]") == frozenset()


def test_true_is_no_number() -> None:
    assert integer_of(3) == 3
    assert integer_of(True) is None
    assert integer_of("3") is None
    assert issubclass(LimitExceededError, ReadError)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"a": 1, "nodes": [{"id": 1, "op": 2}, {"x": 3}]}', {"id", "op"}),
        ('{"a": "nodes", "b": [{"id": 1}]}', set()),
        (r'{"\u006eodes": [{"id": 1}]}', {"id"}),
        (r'{"a\u0020": 1, "b": []}', set()),
        ('{"nodes": {"id": 1}}', set()),
        ("[1]", set()),
    ],
)
def test_keys_of_the_first_element_of_a_list(text, keys):
    assert first_element_keys(text.encode(), "nodes") == keys
