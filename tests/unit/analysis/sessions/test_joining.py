"""Models and maps under a trace: rules of matching, calibration, places and sizes."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.sessions.join import SideFile, join, role_of
from ggscope.analysis.sessions.mapping import slice_rows, wholes_of
from ggscope.descriptions.files import join_text
from ggscope.model.tables import Space, Spans
from ggscope.model.tensors import Place, SizeSource
from ggscope.model.trace import MatchReport, ReadWarning, Severity, Trace
from session_files import (
    buffers_trace,
    graph_trace,
    model_trace,
    reading_trace,
    rows_by_name,
)
from statements import new_statements

LONG = "blk.0.attn_output.weight"
MAP = [("token_embd.weight", 0, 512), (LONG, 512, 256), ("output.weight", 768, 256)]


def shifted(delta: int, reads=MAP):
    return [(name, offset + delta, size) for name, offset, size in reads]


def stated_model(rows) -> Trace:
    """Return a model file, whose own head states its places."""
    model = model_trace(rows)
    place = np.full(len(model.tensors), Place.STATED, np.uint8)
    return replace(model, tensors=replace(model.tensors, place=place))


def mapped(reads, model: Trace, role: str = "map", **options) -> Trace:
    trace = join(reading_trace(reads, **options), [SideFile(model, role)])
    assert trace.check() == []
    return trace


def codes(trace: Trace) -> set[str]:
    return {w.code for w in trace.warnings}


def place_of(trace: Trace, name: str) -> tuple[int, int, Place]:
    row = rows_by_name(trace)[name]
    t = trace.tensors
    return int(t.offset[row]), int(t.size[row]), Place(int(t.place[row]))


def test_map_of_relative_offsets_is_calibrated_by_the_trace():
    trace = mapped(shifted(4096), model_trace(MAP), repeats=3)

    assert trace.joins == (
        MatchReport("map", "memory-map.json", 9, 9, {"name": 9}, delta=4096, n_agree=9),
    )
    assert place_of(trace, LONG) == (4608, 256, Place.CALIBRATED)
    assert "offsets_moved" in codes(trace)


def test_places_are_those_of_the_trace_only_where_there_is_one():
    def message_of(trace: Trace) -> str:
        return next(w.message for w in trace.warnings if w.code == "offsets_moved")

    of_trace = mapped(shifted(4096), model_trace(MAP))
    of_model = join(stated_model(shifted(4096)), [SideFile(model_trace(MAP), "map")])

    assert message_of(of_trace).endswith("offsets in the trace.")
    assert new_statements(message_of(of_model), message_of(of_trace))


def test_map_of_absolute_offsets_needs_no_delta():
    trace = mapped(MAP, model_trace(MAP))

    assert trace.joins[0].delta == 0
    assert place_of(trace, LONG) == (512, 256, Place.LISTED)
    assert "offsets_moved" not in codes(trace)


def test_tensors_never_read_are_appended_and_rows_of_the_trace_stay():
    reads = shifted(4096)[1:2]
    plain = reading_trace(reads)

    trace = join(plain, [SideFile(model_trace(MAP), "map")])

    assert rows_by_name(trace)[LONG] == rows_by_name(plain)[LONG] == 0
    assert len(trace.tensors) == 3
    assert place_of(trace, "output.weight") == (4864, 256, Place.CALIBRATED)


def test_columns_of_spans_are_not_copied():
    plain = reading_trace(shifted(4096), repeats=4)

    trace = join(
        plain, [SideFile(model_trace(MAP), "map"), SideFile(graph_trace([]), "graph")]
    )

    for f in fields(Spans):
        assert getattr(trace.spans, f.name) is getattr(plain.spans, f.name)
    assert trace.accesses.pattern is plain.accesses.pattern
    assert plain.parts == ()


def test_cut_name_is_completed_where_one_name_begins_like_it():
    cut = LONG[:19]
    trace = mapped([("token_embd.weight", 0, 512), (cut, 512, 256)], model_trace(MAP))

    assert trace.joins[0].rules == {"name": 1, "unique prefix": 1}
    assert rows_by_name(trace)[LONG] == 1
    assert cut not in rows_by_name(trace)
    assert trace.joins[1] == MatchReport("names", "memory-map.json", 1, 1)


def test_cut_name_without_an_offset_is_marked_as_a_guess():
    reads = [("token_embd.weight", 0, 512), (LONG[:19], -1, 256)]
    trace = mapped(reads, model_trace(MAP))

    assert rows_by_name(trace)[LONG + "~"] == 1
    assert trace.joins[1] == MatchReport("names", "memory-map.json", 0, 1)


def test_short_name_is_not_taken_for_a_cut_one():
    trace = mapped([("token_embd.weight", 0, 512), ("out", -1, 8)], model_trace(MAP))

    assert rows_by_name(trace)["out"] == 1
    assert trace.tensors.offset[1] == -1


def test_ambiguous_cut_names_are_distinguished_by_offset():
    both = [("blk.10.attn_output.weight", 0, 64), ("blk.10.attn_output.bias", 64, 8)]
    model = model_trace([*both, ("output.weight", 128, 64)])
    reads = [("blk.10.attn_output.", 100, 64), ("blk.10.attn_output.", 164, 8)]
    reads.append(("output.weight", 228, 64))

    trace = mapped(reads, model)

    assert trace.joins[0].rules == {"name": 1, "offset": 2}
    rows = rows_by_name(trace)
    assert trace.accesses.patterns.tensor.tolist() == [
        rows["blk.10.attn_output.weight"],
        rows["blk.10.attn_output.bias"],
        rows["output.weight"],
    ]


def test_suffixes_do_not_hide_a_name():
    trace = mapped([("output.weight (view)", 768, 256)], model_trace(MAP))

    assert trace.joins[0].rules == {"name without suffix": 1}


def test_address_of_a_registry_names_a_nameless_access():
    registry = model_trace(MAP, addresses=[0x1000, 0x2000, 0x3000], name="registry.csv")
    reads = [("token_embd.weight", 0, 512), ("MUL_MAT@0x2010", -1, 16)]
    trace = mapped(reads, registry, "registry", addresses=[0x1000, 0x2010])

    assert trace.joins[0].kind == "registry"
    assert trace.joins[0].rules == {"name": 1, "pointer": 1}
    assert rows_by_name(trace)[LONG] == 1


def test_offsets_alone_map_a_trace_without_names():
    reads = [("MUL_MAT@0x1", 512, 256), ("MUL_MAT@0x2", 768, 256)]
    trace = mapped(reads, model_trace(MAP, place=Place.STATED), "model")

    assert trace.joins[0].rules == {"offset": 2}
    assert rows_by_name(trace)[LONG] == 0
    # None of its names was cut: it has none.
    assert [join.kind for join in trace.joins] == ["map"]
    counts = {w.code: w.count for w in trace.warnings}
    assert counts.get("tensors_named") == 2
    assert "names_completed" not in counts


def test_model_of_another_run_is_named_and_not_mapped():
    other = [(name, offset * 3 + i, size) for i, (name, offset, size) in enumerate(MAP)]
    plain = reading_trace(MAP)
    trace = join(plain, [SideFile(model_trace(other), "map")])

    (warning,) = trace.warnings
    assert warning.code == "part_does_not_fit"
    assert "3 of 3 tensors matched by name, 1 of 3 offsets match" in warning.message
    assert trace.joins[0].n_found == 0
    assert len(trace.tensors) == 3
    assert trace.tensors is plain.tensors
    assert [p.role for p in trace.parts] == ["trace", "map"]


def test_model_without_a_common_name_is_named_too():
    trace = mapped(MAP, model_trace([("encoder.conv1.weight", 9, 9)]))

    assert "part_does_not_fit" in codes(trace)
    moved = [(name, offset * 3 + i, size) for i, (name, offset, size) in enumerate(MAP)]
    nowhere, nameless, other, own = (
        "\n".join(w.message for w in mapped(MAP, model).warnings)
        for model in (
            model_trace([("encoder.conv1.weight", -1, 9)]),
            model_trace([("encoder.conv1.weight", 9, 9)]),
            model_trace(moved),
            model_trace(MAP),
        )
    )
    for model in (nowhere, nameless, other):
        assert new_statements(model, own)
    assert new_statements(nowhere, nameless + other + own)


def test_one_offset_in_two_is_no_evidence():
    reads = [*shifted(0)[:2], *((f"other.{i}.weight", 9000 + i, 64) for i in range(9))]
    reads[0] = (reads[0][0], reads[0][1] + 77_777, reads[0][2])

    trace = mapped(reads, model_trace(MAP))

    assert "part_does_not_fit" in codes(trace)
    assert "1 of 2 offsets match" in trace.warnings[0].message
    assert trace.joins[0].n_found == 0


def test_one_offset_that_agrees_with_itself_is_no_evidence():
    reads = [*shifted(99)[:1], *((f"other.{i}.weight", 9000 + i, 64) for i in range(9))]

    trace = mapped(reads, model_trace(MAP))

    assert "part_does_not_fit" in codes(trace)


def nameless(reads, by: int = 0):
    return [(f"MUL_MAT@0x{i:x}", o + by, size) for i, (_, o, size) in enumerate(reads)]


UNEVEN = [(f"blk.{i}.ffn_up.weight", 1000 * i + 7 * i * i, 512) for i in range(9)]
EVEN = [(f"blk.{i}.ffn_up.weight", 1000 * i, 512) for i in range(9)]


def test_places_alone_calibrate_a_trace_without_names():
    trace = mapped(nameless(UNEVEN[2:8], by=4096), model_trace(UNEVEN))

    assert (trace.joins[0].delta, trace.joins[0].n_agree) == (4096, 6)
    assert trace.joins[0].rules == {"offset": 6}
    assert place_of(trace, UNEVEN[5][0])[0] == UNEVEN[5][1] + 4096


def test_places_that_fit_in_several_ways_are_no_evidence():
    trace = mapped(nameless(EVEN[2:6], by=4096), model_trace(EVEN))

    assert "part_does_not_fit" in codes(trace)
    assert trace.joins[0].n_found == 0


def test_two_places_are_too_few_to_calibrate_without_names():
    trace = mapped(nameless(UNEVEN[:2], by=4096), model_trace(UNEVEN))

    assert "part_does_not_fit" in codes(trace)


def test_trace_that_shows_neither_names_nor_places_shows_the_model_unmapped():
    reads = [(name, -1, size) for name, _, size in nameless(UNEVEN)]
    trace = mapped(reads, model_trace(UNEVEN), space=Space.UNKNOWN)

    assert codes(trace) == {"nothing_to_map"}
    assert trace.joins == (MatchReport("map", "memory-map.json", 0, 0),)
    assert len(trace.tensors) == 2 * len(UNEVEN)
    assert (trace.accesses.patterns.offset == -1).all()


def test_empty_registry_is_a_part_and_says_nothing_of_fit():
    trace = mapped(shifted(0), model_trace([]))

    assert [part.role for part in trace.parts] == ["trace", "map"]
    assert (trace.joins, trace.warnings) == ((), ())


def test_names_alone_map_a_trace_without_offsets():
    reads = [(name, -1, size) for name, _, size in MAP]
    trace = mapped(reads, model_trace(MAP), space=Space.UNKNOWN)

    assert trace.joins[0].delta is None
    assert trace.joins[0].n_found == 3
    assert place_of(trace, LONG)[2] is Place.LISTED


def test_offset_is_filled_in_where_the_trace_says_file_but_not_where():
    reads = [*shifted(4096)[:2], ("output.weight", -1, 256)]
    trace = mapped(reads, model_trace(MAP))

    assert trace.accesses.patterns.offset.tolist() == [4096, 4608, 4864]


def test_access_without_any_mapping_stays_without_a_place():
    reads = [*MAP, ("other", -1, 8)]
    trace = mapped(reads, model_trace(MAP))

    assert trace.accesses.patterns.offset[3] == -1
    assert trace.tensors.offset[rows_by_name(trace)["other"]] == -1
    lost = next(w for w in trace.warnings if w.code == "tensors_missing_in_map")
    assert lost.count == 1


def test_inflated_sizes_end_at_the_next_tensor_or_at_the_access():
    wrong = [(name, offset, size * 4) for name, offset, size in MAP]
    reads = [*MAP[:2], ("output.weight", 768, 250)]
    trace = mapped(reads, model_trace(wrong))

    sizes = {n: place_of(trace, n)[1] for n, _, _ in MAP}
    assert sizes == {"token_embd.weight": 512, LONG: 256, "output.weight": 250}
    source = trace.tensors.size_source[rows_by_name(trace)["token_embd.weight"]]
    assert source == SizeSource.REPAIRED


def test_size_of_the_model_file_wins_over_the_map_whatever_comes_first():
    header = model_trace(
        shifted(4096), place=Place.STATED, source=SizeSource.STATED, data_offset=4096
    )
    listed = model_trace([(n, o, s + 1) for n, o, s in MAP])
    trace = join(
        reading_trace([("token_embd.weight", -1, 512)]),
        [SideFile(listed, "map"), SideFile(header, "model")],
    )

    assert place_of(trace, LONG) == (4608, 256, Place.STATED)
    assert len(trace.tensors) == 3
    assert [j.delta for j in trace.joins] == [None, 4096]
    assert "delta_disagrees" not in codes(trace)


def test_delta_that_contradicts_the_model_file_is_noticed():
    header = model_trace(
        shifted(4096), place=Place.STATED, source=SizeSource.STATED, data_offset=99
    )
    trace = join(
        reading_trace(shifted(4096)),
        [SideFile(model_trace(MAP), "map"), SideFile(header, "model")],
    )

    assert "delta_disagrees" in codes(trace)


def stack_of_slices(n: int, size: int, offset: int):
    return [
        (f"blk.0.ffn_up_exps.weight[{k}]", offset + k * size, size) for k in range(n)
    ]


def test_slices_are_folded_onto_their_stack():
    model = model_trace(
        [("a.weight", 0, 64), *stack_of_slices(4, 100, 64)], experts=[-1, 0, 1, 2, 3]
    )
    trace = mapped([("blk.0.ffn_up_exps.weight", 64, 400)], model)

    row = rows_by_name(trace)["blk.0.ffn_up_exps.weight"]
    assert row == 0
    assert place_of(trace, "blk.0.ffn_up_exps.weight") == (64, 400, Place.LISTED)
    assert trace.tensors.n_experts[row] == 4
    assert place_of(trace, "blk.0.ffn_up_exps.weight[2]") == (264, 100, Place.LISTED)
    assert slice_rows(trace.tensors, trace.strings).sum() == 4


@pytest.mark.parametrize("is_joined", [True, False])
@pytest.mark.parametrize("missing", [(), (2,)])
def test_slices_and_their_stack_are_one_tensor(is_joined, missing):
    listed = [
        ("a.weight", 0, 64),
        *(s for k, s in enumerate(stack_of_slices(4, 100, 64)) if k not in missing),
        ("z.weight", 464, -1),
    ]
    experts = [-1, *(k for k in range(4) if k not in missing), -1]
    model = model_trace(listed, experts=experts)
    trace = mapped([("blk.0.ffn_up_exps.weight", 64, 400)], model)
    trace = trace if is_joined else model

    wholes = wholes_of(trace.tensors, trace.strings)

    every = np.ones(len(trace.tensors), np.bool_)
    size = np.maximum(trace.tensors.size, 0)
    assert wholes.count(every) == 3
    # A stack of which a slice is missing has the size that the trace read of it.
    whole = 464 if is_joined else 464 - 100 * len(missing)
    assert int(size[wholes.has_bytes].sum()) == whole
    assert int(np.count_nonzero(wholes.is_unsized)) == 1


def test_inflated_slices_do_not_inflate_their_stack():
    slices = [(n, o, 999) for n, o, _ in stack_of_slices(4, 100, 0)]
    model = model_trace([*slices, ("b.weight", 400, 8)], experts=[0, 1, 2, 3, -1])
    trace = mapped([("blk.0.ffn_up_exps.weight", 0, 400)], model)

    assert place_of(trace, "blk.0.ffn_up_exps.weight")[:2] == (0, 400)


def test_buffers_share_the_zero_of_the_trace_and_come_before_it():
    plain = reading_trace(MAP, origin=50_000_000)
    side = buffers_trace(
        [(0xAB, 1 << 20, 0, -1), (0xCD, 64, 4_000, 9_000)], origin=30_000_000
    )
    trace = join(plain, [SideFile(side, "buffers")])

    assert trace.check() == []
    assert trace.buffers.allocated.tolist() == [-20_000_000, -19_996_000]
    assert trace.buffers.freed.tolist() == [-1, -19_991_000]
    assert trace.extent.start == -20_000_000
    assert trace.extent.end == plain.extent.end
    assert trace.counters[0].time.tolist() == [-20_000_000, -19_996_000]
    assert trace.parts[1].shift == 0
    assert trace.lanes[0] == plain.lanes[0]


def test_buffers_of_another_clock_begin_with_the_trace():
    plain = reading_trace(MAP, origin=10**15)
    trace = join(
        plain, [SideFile(buffers_trace([(1, 8, 0, -1)], origin=77), "buffers")]
    )

    assert trace.buffers.allocated.tolist() == [0]
    assert trace.parts[1].shift == 10**15 - 77
    assert "other_clock" in codes(trace)


def test_buffer_known_by_address_learns_what_the_side_file_shows():
    known = buffers_trace([(0xAB, -1, -1, -1)])
    report = buffers_trace([(0xCD, 5, 10, -1), (0xAB, 7, 20, -1)], name="b.json")

    trace = join(known, [SideFile(report, "buffers")])

    assert trace.buffers.address.tolist() == [0xAB, 0xCD]
    assert trace.buffers.size.tolist() == [7, 5]


def test_graph_nodes_find_their_tensors_and_ops():
    graph = graph_trace([(LONG, ""), ("out-0", "MUL_MAT"), ("out-1 (view)", "ADD")])
    trace = join(reading_trace(MAP), [SideFile(graph, "graph")])

    assert trace.graphs[0].tensor.tolist()[0] == rows_by_name(trace)[LONG]
    assert trace.op_name(int(trace.graphs[0].op[1])) == "MUL_MAT"
    assert trace.joins[0] == MatchReport(
        "graph", "graph.json", 1, 3, {"name, op and order": 1}, n_nodes=2,
        unrecorded={"ADD": 1}, unrecorded_nodes=(2,),
    )  # fmt: skip


def test_sides_without_a_trace_make_a_session_of_their_own():
    empty = join(
        graph_trace([("a", "")], name="g.json"),
        [SideFile(buffers_trace([(1, 8, 5, -1)], origin=10**12), "buffers")],
    )

    assert empty.check() == []
    assert empty.clock.origin == 10**12
    assert empty.extent.start == 5


@pytest.mark.parametrize(
    ("trace", "role"),
    [
        (reading_trace(MAP), "trace"),
        (model_trace(MAP), "map"),
        (buffers_trace([(1, 8, 0, -1)]), "buffers"),
        (graph_trace([("a", "")]), "graph"),
    ],
)
def test_role_of_a_file_is_what_it_holds(trace, role):
    assert role_of(trace) == role


def test_words_name_counts_rules_and_delta():
    join_ = MatchReport(
        "map", "m.json", 134, 134, {"name": 120, "unique prefix": 14}, 1709440, 134
    )

    assert join_text(join_) == (
        "accesses with a tensor of m.json: 134 of 134 (100.0 %): name 120, "
        "unique prefix 14; delta 1,709,440, all 134 agree"
    )


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5000), min_size=2, max_size=20),
    delta=st.integers(0, 1 << 40),
    data=st.data(),
)
def test_any_delta_is_found_and_every_access_gets_its_tensor(sizes, delta, data):
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist()
    rows = [
        (f"blk.{i}.ffn_down.weight", start, size)
        for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    chosen = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=30))
    cut = data.draw(st.booleans())
    reads = [
        (name[:19] if cut else name, offset + delta, size)
        for name, offset, size in chosen
    ]

    trace = mapped(reads, model_trace(rows))

    expected = rows_by_name(trace)
    assert trace.joins[0].delta == delta
    assert trace.joins[0].n_agree == trace.joins[0].n_all == len(reads)
    assert trace.accesses.patterns.tensor.tolist() == [
        expected[n] for n, _, _ in chosen
    ]
    for name, offset, size in rows:
        assert place_of(trace, name)[:2] == (offset + delta, size)


@pytest.mark.parametrize(("listed", "expected"), [(MAP, False), ([("x", 0, 8)], True)])
def test_doubt_about_the_format_goes_where_side_files_fit(listed, expected):
    doubt = ReadWarning(Severity.NOTICE, "low_confidence", "It looks like it.")
    main = replace(reading_trace(MAP), warnings=(doubt,))

    trace = join(main, [SideFile(model_trace(listed), "map")])

    assert ("low_confidence" in codes(trace)) is expected


def test_offsets_of_the_data_section_are_counted_from_the_model_file():
    model = stated_model(shifted(4096))  # the trace counts from the data section

    trace = join(reading_trace(MAP), [SideFile(model, "model")])

    assert trace.joins[0].delta == -4096
    assert trace.joins[0].n_agree == trace.joins[0].n_all == 3
    assert place_of(trace, LONG) == (512 + 4096, 256, Place.STATED)
    assert sorted(trace.accesses.patterns.offset.tolist()) == [4096, 4608, 4864]
    assert "trace_offsets_moved" in codes(trace)
    assert "offsets_moved" not in codes(trace)


def test_accesses_matched_as_listed_slices_count_as_found_by_name():
    reads = [("blk.0.ffn_up_exps.weight[1]", 100, 50)]
    listed = [(f"blk.0.ffn_up_exps.weight[{i}]", 50 + 50 * i, 50) for i in range(3)]

    trace = join(reading_trace(reads), [SideFile(model_trace(listed), "map")])

    assert trace.joins[0].rules == {"name": 1}
    assert sum(trace.joins[0].rules.values()) == trace.joins[0].n_found
