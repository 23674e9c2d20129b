"""Memory maps: every real one against the index, and what damage leaves."""

import itertools
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.errors import CorruptError, LimitExceededError, TruncatedError
from ggscope.model.tensors import Place, SizeSource
from ggscope.model.trace import Severity
from ggscope.readers.api import HEAD_BYTES, Head
from ggscope.readers.common.tensor_rows import TensorRows
from ggscope.readers.maps.checks import examine
from ggscope.readers.maps.memory_map import MemoryMapReader
from map_files import codes, document, listed, message_of, read_at, read_side, row
from support import corpus_path, need_corpus


@cache
def entries():
    folder = corpus_path()
    if folder is None:
        return ()
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    return tuple(e for e in index if e["format"] == "memory-map-json")


REAL = [pytest.param(e, id=e["path"].split("/")[1]) for e in entries()] or [
    pytest.param(None, id="no-corpus")
]

END = dict.fromkeys(("0fd8c082", "3584a339", "71099aab"), 667078656)
"""Where data end whose stated end is inflated: offset and size of output_norm."""


def read(folder, content, name="memory-map.json"):
    return read_side(MemoryMapReader(), folder, content, name)


def sniffed(text):
    data = text.encode() if isinstance(text, str) else text
    return MemoryMapReader().sniff(Head("m.json", len(data), data[:HEAD_BYTES]))


@pytest.mark.parametrize("entry", REAL)
def test_real_map_equals_the_index(entry):
    trace = read_at(MemoryMapReader(), need_corpus() / entry["path"])
    expect, summary = entry["expect"], trace.info.summary
    facts = trace.models[0].metadata

    assert len(trace.tensors) == expect["tensors"]
    assert trace.models[0].name == expect["model_name"]
    for key in ("n_layers", "n_vocab", "n_embd"):
        assert facts[key] == str(expect[key])
    for key in ("total_size_bytes", "first_offset", "max_end", "sum_sizes", "overlaps"):
        assert summary[key] == expect[key], key
    assert summary["expert_slices"] == expect["experts"]
    assert summary["categories"] == expect["categories"]
    assert int((trace.tensors.expert >= 0).sum()) == expect["experts"]
    assert codes(trace).get("map_overlaps", 0) == expect["overlaps"]
    assert set(trace.tensors.place.tolist()) == {Place.LISTED}


@pytest.mark.parametrize("entry", REAL)
def test_real_map_has_no_overlap_after_repair(entry):
    trace = read_at(MemoryMapReader(), need_corpus() / entry["path"])
    t, expect = trace.tensors, entry["expect"]

    order = np.argsort(t.offset, kind="stable")
    end = (t.offset + t.size)[order]

    assert (end[:-1] <= t.offset[order][1:]).all()
    # Quantised or not, the repaired tensors fill the data section to the byte.
    assert t.size.sum() == end[-1] - expect["first_offset"]
    assert end[-1] == END.get(entry["path"].split("/")[1], expect["max_end"])
    repaired = t.size_source == SizeSource.REPAIRED
    assert repaired.any() == bool(expect["overlaps"])


def test_repaired_slices_equal_those_of_the_right_map():
    folder = need_corpus()
    paths = {e["path"].split("/")[1]: folder / e["path"] for e in entries()}
    wrong = read_at(MemoryMapReader(), paths["94668299"])
    right = read_at(MemoryMapReader(), paths["0b4cf8b5"])

    shift = right.tensors.offset.min()

    moved = [(name, offset + shift, size) for name, offset, size in listed(wrong)]
    assert sorted(listed(right)) == sorted(moved)


@pytest.mark.parametrize("entry", REAL)
def test_real_map_is_reported_by_its_content(entry):
    data = (need_corpus() / entry["path"]).read_bytes()

    assert sniffed(data).confidence == 90


def test_total_of_the_data_section_is_recognised(tmp_path):
    trace = read(tmp_path, document(row("a", 100, 50), row("b", 150, 30), total=80))

    assert codes(trace) == {"map_beyond_total": 1}
    assert "100 bytes beyond" in message_of(trace, "map_beyond_total")
    assert "data section only" in message_of(trace, "map_beyond_total")


def test_total_that_is_simply_too_small_is_not_explained_away(tmp_path):
    trace = read(tmp_path, document(row("a", 100, 50), total=90))

    assert "data section" not in message_of(trace, "map_beyond_total")


def test_relative_offsets_and_a_wrong_count_are_reported(tmp_path):
    text = document(row("a", 0, 8), metadata={"n_tensors": 459})

    assert codes(read(tmp_path, text)) == {"map_relative_offsets": 1, "map_count": 1}


def test_stated_size_stays_visible_where_it_is_repaired(tmp_path):
    rows = [row("a", 0, 400, shape=[10, 10]), row("b", 100, 60)]

    trace = read(tmp_path, document(*rows))

    assert listed(trace) == [("a", 0, 100), ("b", 100, 60)]
    assert trace.tensors.size_source.tolist() == [
        SizeSource.REPAIRED,
        SizeSource.LISTED,
    ]
    message = message_of(trace, "map_overlaps")
    assert message.startswith("1 overlaps: 1 of 2 tensors")
    assert "stated 400 bytes, now 100" in message
    assert "1 of them have 4 bytes per element" in message


def test_slices_are_spread_over_the_space_of_their_tensor(tmp_path):
    slices = [row(f"x_exps.weight[{k}]", 700 * k, 700, expert_id=k) for k in range(3)]
    trace = read(tmp_path, document(*reversed(slices), row("y", 304, 8)))

    assert listed(trace) == [
        ("x_exps.weight[2]", 202, 102),
        ("x_exps.weight[1]", 101, 101),
        ("x_exps.weight[0]", 0, 101),
        ("y", 304, 8),
    ]
    assert trace.tensors.expert.tolist() == [2, 1, 0, -1]
    assert codes(trace)["map_slices"] == 1


def test_slices_of_an_incomplete_list_lose_their_place_not_their_row(tmp_path):
    slices = [row(f"x_exps.weight[{k}]", 700 * k, 700) for k in (0, 2)]

    trace = read(tmp_path, document(*slices, row("y", 800, 8)))

    assert listed(trace) == [
        ("x_exps.weight[0]", 0, 700),
        ("x_exps.weight[2]", -1, -1),
        ("y", 800, 8),
    ]
    assert trace.tensors.place.tolist() == [Place.LISTED, Place.UNKNOWN, Place.LISTED]


def test_stacked_experts_and_layers_are_read(tmp_path):
    rows = [
        row("blk.3.ffn_up_exps.weight", 0, 640, shape=[8, 5, 4], layer_id=3),
        row("blk.4.attn_norm.weight", 640, 32),
        row("odd", 672, 32, layer_id=65535),
        row("named", 704, 32, layer_id=7),
    ]

    t = read(tmp_path, document(*rows)).tensors

    assert t.n_experts.tolist() == [4, 0, 0, 0]
    assert t.layer.tolist() == [3, 4, -1, 7]
    assert t.shape[0].tolist() == [8, 5, 4, 1]


@pytest.mark.parametrize(
    ("bad", "code", "n_rows"),
    [
        ("7", "map_bad_row", 1),
        ("null", "map_bad_row", 1),
        ('{"offset_start": 3}', "map_no_name", 1),
        ('{"name": ""}', "map_no_name", 1),
        ('{"name": "b"}', "map_no_offset", 2),
        ('{"name": "b", "offset_start": -4, "size_bytes": 2}', "map_no_offset", 2),
        ('{"name": "b", "offset_start": "x", "size_bytes": 2}', "map_no_offset", 2),
        ('{"name": "b", "offset_start": 1e999}', "map_no_offset", 2),
        ('{"name": "b", "offset_start": NaN}', "odd_value", 2),
        ('{"name": "b", "offset_start": 18446744073709551616}', "map_no_offset", 2),
        (
            '{"name":"b","offset_start":8,"offset_end":20,"size_bytes":4}',
            "map_end_differs",
            2,
        ),
        ('{"name": "a", "offset_start": 8, "size_bytes": 4}', "map_repeated_tensor", 2),
    ],
)
def test_odd_row_is_reported_with_its_place(tmp_path, bad, code, n_rows):
    text = document(row("a", 4, 4), total=9999)
    text = text.replace("]}", f", {bad}]}}", 1).replace('"n_tensors": 1', '"x": 1')
    assert bad in text

    trace = read(tmp_path, text)

    (warning,) = (w for w in trace.warnings if w.code == code)
    assert len(trace.tensors) == n_rows
    assert warning.offset == text.rindex(bad)
    assert warning.place in ("tensors[1]", "a", "b")


def test_end_alone_gives_the_size(tmp_path):
    text = document({"name": "a", "offset_start": 5, "offset_end": 25})

    assert listed(read(tmp_path, text)) == [("a", 5, 20)]


@pytest.mark.parametrize(
    "values",
    [
        {"shape": "wide"},
        {"shape": [1, 2, 3, 4, 5]},
        {"shape": [-1]},
        {"shape": [1.5]},
        {"shape": None},
        {"category": 7, "layer_id": "x", "expert_id": 1 << 70},
    ],
    ids=str,
)
def test_odd_values_of_a_row_are_unknown(tmp_path, values):
    trace = read(tmp_path, document(row("a", 4, 4, **values)))

    assert listed(trace) == [("a", 4, 4)]
    if "shape" in values:
        assert trace.tensors.shape.tolist() == [[0, 0, 0, 0]]
    assert trace.tensors.layer.tolist() == [-1]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.999])
def test_cut_map_keeps_the_tensors_before_the_end(tmp_path, share):
    rows = [row(f"blk.{i}.w", 100 * i, 100) for i in range(50)]
    text = document(*rows)

    trace = read(tmp_path, text[: int(len(text) * share)])

    n = len(trace.tensors)
    assert 0 < n <= 50
    assert listed(trace) == [(f"blk.{i}.w", 100 * i, 100) for i in range(n)]
    token = next(w for w in trace.warnings if w.code == "truncated_json")
    assert token.severity is Severity.DATA_LOSS
    assert token.place == f"tensors[{n}]"


def test_broken_json_keeps_the_tensors_before_it_and_names_the_offset(tmp_path):
    rows = [row(f"t{i}", 100 * i, 100) for i in range(9)]
    text = document(*rows).replace('}, {"name": "t5"', '} {"name": "t5"')

    trace = read(tmp_path, text)

    token = next(w for w in trace.warnings if w.code == "broken_json")
    assert len(trace.tensors) == 5
    assert token.offset == text.index('{"name": "t5"')


def test_metadata_behind_the_tensors_counts(tmp_path):
    text = f'{{"tensors": [{json.dumps(row("a", 4, 4))}], "model_name": "late"}}'

    assert read(tmp_path, text).models[0].name == "late"


def test_value_that_is_no_json_is_reported_and_the_tensors_are_read(tmp_path):
    text = document(row("a", 4, 4)).replace('"tiny"', "tiny")

    trace = read(tmp_path, text)

    assert codes(trace) == {"map_bad_value": 1}
    assert trace.warnings[0].offset == text.index("tiny")
    assert trace.models[0].name == "memory-map"


def test_byte_order_mark_and_blanks_do_no_harm(tmp_path):
    text = "\ufeff \n" + document(row("a", 4, 4))

    assert sniffed(text).confidence == 90
    assert listed(read(tmp_path, text)) == [("a", 4, 4)]


@pytest.mark.parametrize(
    ("text", "error", "word"),
    [
        ("[1, 2]", CorruptError, "no list of tensors"),
        ('{"nodes": [], "edges": []}', CorruptError, "nodes, edges"),
        ('{"tensors": {}}', CorruptError, "no list of tensors"),
        ("{}", CorruptError, "no keys"),
        ('{"tensors": [', TruncatedError, "ends inside"),
        ('{"model_name": "tiny}', TruncatedError, "line 1 column 16"),
        ('{"model_name" "tiny"}', CorruptError, "line 1 column 15"),
        ("hello", CorruptError, "no list of tensors"),
        ("  \n", TruncatedError, "ends inside"),
    ],
)
def test_json_of_another_kind_is_one_clear_error(tmp_path, text, error, word):
    with pytest.raises(error, match=word):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        (document(row("a", 0, 4)), 90),
        (document(), 50),
        ('{"tensors": [{"name": "a", "shape": []}]}', 0),
        ('{"timeline_events": [], "tensors": 1}', 0),
        ('["tensors", "offset_start"]', 0),
        ('{"tensors": []}', 0),
        ("", 0),
    ],
)
def test_sniff_wants_tensors_with_offsets(text, confidence):
    assert sniffed(text).confidence == confidence


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-1, 60), st.integers(-1, 40)), min_size=1, max_size=12
    )
)
def test_repair_equals_a_slow_reference(places):
    rows = TensorRows()
    for i, (offset, size) in enumerate(places):
        rows.add(f"t{i}", offset=offset, size=size)

    layout = examine(rows)

    known = sorted({o for o, s in places if o >= 0 and s >= 0})
    for i, (offset, size) in enumerate(places):
        following = [o for o in known if o > offset]
        fits = offset < 0 or size < 0 or not following or offset + size <= following[0]
        assert layout.size[i] == (size if fits else following[0] - offset)
        assert layout.offset[i] == offset
        assert (layout.source[i] == SizeSource.REPAIRED) == (not fits)
    order = sorted(
        (i for i, (o, s) in enumerate(places) if o >= 0 and s >= 0),
        key=lambda i: places[i][0],
    )
    pairs = itertools.pairwise(order)
    assert len(layout.overlaps) == sum(sum(places[i]) > places[j][0] for i, j in pairs)


@pytest.mark.parametrize(("size", "expected"), [(4.0, 4), (True, 1), ("4", 1)])
def test_whole_floats_count_and_truth_values_do_not(tmp_path, size, expected):
    trace = read(tmp_path, document(row("a", 4, 1) | {"size_bytes": size}))

    assert listed(trace) == [("a", 4, expected)]


def test_value_too_large_to_take_is_refused(tmp_path):
    text = f'{{"tensors": [{{"name": "{"x" * (40 << 20)}"}}]}}'

    with pytest.raises(LimitExceededError, match="larger than"):
        read(tmp_path, text)
