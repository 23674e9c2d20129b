"""Missing records are counted and placed; whole and irregular traces raise no alarm."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files as events
from builders import OPS, finished, op_number, random_trace
from ggscope.analysis.completeness import expected
from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.sessions import runs
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.descriptions.completeness import (
    CODE,
    completeness_text,
    gap_text,
    with_completeness,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses
from ggscope.model.trace import LaneKind, ReadWarning, Severity, Trace
from ggscope.readers.registry import open_trace
from graph_traces import add_graph
from link_traces import random_links_trace
from statements import new_statement, new_statements
from support import ROOT, need_corpus
from tensor_files import NO_LAYER, Src, encode, llama_trace, one_source_each

Op = tuple[str, str, tuple[str, ...]]
"""Name, op, and names of what it reads."""
SHARES = (0.001, 0.01, 0.1)
SAMPLES = ("tinyllama-256.bin", "llama.ggmlviz", "moe-experiment/trace-1024.bin")
CORPUS = (
    "tracer/trace_256_3584a339.bin",
    "tracer/trace_256_c26d86e7.bin",
    "tracer/trace_1024v3_a6ba6071.bin",
    "tracer/trace_1024v3_962e44d2.bin",
    "tracer/trace_128_71099aab.bin",
    "tracer/trace_64packed_71099aab.bin",
)


def one_pass(layers: int = 6) -> list[Op]:
    """Return the ops of a pass: each layer reads the one before it."""
    ops: list[Op] = [("inp_embd", "GET_ROWS", ("token_embd.weight",))]
    for i in range(layers):
        x = "inp_embd" if i == 0 else f"l_out-{i - 1}"
        ops += [
            (f"norm-{i}", "RMS_NORM", (x,)),
            (f"Qcur-{i}", "MUL_MAT", (f"blk.{i}.attn_q.weight", f"norm-{i}")),
            (f"cache_k_l{i} (view)", "CPY", (f"Qcur-{i}",)),
            (f"ffn_out-{i}", "MUL_MAT", (f"blk.{i}.ffn.weight", f"Qcur-{i}")),
            (f"l_out-{i}", "ADD", (f"ffn_out-{i}", x)),
        ]
    last = f"l_out-{layers - 1}"
    return [*ops, ("result", "MUL_MAT", ("output.weight", last))]


def traced(
    passes: Sequence[Sequence[Op]],
    *,
    lanes: int = 1,
    has_passes: bool = True,
    skip: frozenset[tuple[int, int]] = frozenset(),
) -> Trace:
    """Return passes one after the other, on every lane; but for (pass, op) pairs."""
    builder = TraceBuilder()
    builder.ops = OPS
    ids = [builder.add_lane(f"thread {i}", LaneKind.THREAD) for i in range(lanes)]
    rows: list[tuple[int, int, Op]] = []
    starts, tick = [], 0
    for number, ops in enumerate(passes):
        starts.append(tick)
        for place, op in enumerate(ops):
            for lane in ids:
                if (number * lanes + lane, place) not in skip:
                    rows.append((lane, tick + lane, op))
            tick += 10
    rows.sort(key=lambda row: (row[0], row[1]))
    start = np.array([row[1] for row in rows], np.int64)
    builder.add_spans(
        start=start,
        end=start + 5,
        lane=np.array([row[0] for row in rows], np.int32),
        name=builder.strings.intern_many([row[2][0] for row in rows]),
        op=np.array([op_number(row[2][1]) for row in rows], np.int16),
    )
    names: dict[str, int] = {}
    tensors = [[names.setdefault(n, len(names)) for n in row[2][2]] for row in rows]
    columns = AccessColumns.blank(sum(map(len, tensors)))
    flat = np.array([t for some in tensors for t in some], np.int32)
    count = len(rows)
    if has_passes:
        tokens = builder.add_lane("tokens", LaneKind.TOKEN)
        begins = np.array(starts, np.int64)
        builder.add_spans(start=begins, end=begins + 1, lane=tokens, name=-1)
    builder.accesses = Accesses(
        np.append(np.arange(count), np.full(len(starts) * has_passes, -1)).astype(int),
        np.cumsum([0, *map(len, tensors)]),
        replace(columns, tensor=flat),
        FlatAccesses.blank(),
    )
    builder.tensors = named_tensors(builder, list(names))
    return finished(builder)


def named_tensors(builder: TraceBuilder, names: list[str]):
    from ggscope.model.tensors import Tensors

    n = len(names)
    return Tensors(
        name=builder.strings.intern_many(names),
        offset=np.full(n, -1, np.int64),
        size=np.full(n, -1, np.int64),
        layer=np.full(n, -1, np.int16),
        expert=np.full(n, -1, np.int16),
    )


def lost_at_random(share: float, n_passes: int, n_ops: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    n = round(share * n_passes * n_ops)
    at = rng.choice(n_passes * n_ops, n, replace=False)
    return frozenset((int(i) // n_ops, int(i) % n_ops) for i in at)


def is_whole(completeness: Completeness) -> bool:
    return (
        completeness.is_known
        and not completeness.n_missing
        and not completeness.n_varying
    )


# -- traces made here ------------------------------------------------------------


@pytest.mark.parametrize("n_passes", [2, 3, 8, 40])
@pytest.mark.parametrize("lanes", [1, 3])
def test_nothing_is_missing_from_passes_that_are_alike(n_passes, lanes) -> None:
    result = completeness(traced([one_pass()] * n_passes, lanes=lanes))

    assert is_whole(result)
    assert result.share == 1
    assert result.n_passes == n_passes * lanes
    assert completeness_text(result).startswith("no records missing")


@pytest.mark.parametrize("n_passes", [2, 5, 30])
def test_one_lost_record_is_counted_and_placed(n_passes) -> None:
    ops = one_pass()
    place = ops.index(next(op for op in ops if op[0] == "ffn_out-3"))
    trace = traced([ops] * n_passes, skip=frozenset([(1, place)]))

    result = completeness(trace)

    assert (result.n_missing, result.n_there) == (1, n_passes * len(ops) - 1)
    (gap,) = result.gaps
    assert (gap.name, gap.op) == ("ffn_out-3", "MUL_MAT")
    assert gap.after == len(ops) + place - 1
    assert trace.span_name(gap.before) == "l_out-3"
    assert gap.time == int(trace.spans.start[gap.after])
    text = f"ffn_out-3 (MUL_MAT) after record {gap.after} (cache_k_l3 (view))"
    assert gap_text(trace, gap) == text


@pytest.mark.parametrize("lanes", [1, 4])
def test_lost_begin_of_a_pass_does_not_join_it_to_the_one_before(lanes) -> None:
    """Without its first op a pass has no begin that the reader could see."""
    ops = one_pass()
    whole = traced([ops] * 6, lanes=lanes, skip=frozenset([(2 * lanes, 0)]))
    is_token = np.array([lane.kind is LaneKind.TOKEN for lane in whole.lanes])
    keep = ~is_token[whole.spans.lane] | (whole.spans.start != 2 * 10 * len(ops))
    columns = {
        name: value[keep]
        for name in ("start", "end", "lane", "name", "op", "flags")
        if (value := getattr(whole.spans, name)) is not None
    }
    accesses = replace(whole.accesses, pattern=whole.accesses.pattern[keep])
    spans = replace(whole.spans, **columns)

    result = completeness(replace(whole, spans=spans, accesses=accesses))

    assert result.n_missing == 1
    assert result.gaps[0].name == "inp_embd"


def test_passes_without_bands_are_found_by_what_repeats() -> None:
    ops = one_pass()
    skip = lost_at_random(0.02, 10, len(ops), seed=3)

    result = completeness(traced([ops] * 10, has_passes=False, skip=skip))

    assert is_whole(completeness(traced([ops] * 10, has_passes=False)))
    assert result.n_missing == len(skip)


def test_recording_that_begins_and_ends_inside_a_pass_lacks_nothing() -> None:
    ops = one_pass()
    head = frozenset((0, k) for k in range(11))
    tail = frozenset((4, k) for k in range(17, len(ops)))

    assert is_whole(completeness(traced([ops] * 5, skip=head | tail)))


def test_first_and_last_op_are_missed_where_chance_takes_others_too() -> None:
    ops = one_pass()
    ends = {(0, 0), (4, len(ops) - 1)}
    others = {(pass_, 5 * k + pass_) for pass_ in (1, 2, 3) for k in (1, 3, 5)}

    result = completeness(traced([ops] * 5, skip=frozenset(ends | others)))

    assert result.n_missing == len(ends | others)
    assert result.n_fewer == len(ends)
    assert {"inp_embd", "result"} <= {gap.name for gap in result.gaps}


def test_longer_end_may_be_cut_or_lost_where_chance_takes_others() -> None:
    ops = one_pass()
    head = {(0, 0), (0, 1)}
    others = {(pass_, 5 * k + pass_) for pass_ in (1, 2, 3) for k in (1, 3, 5)}

    result = completeness(traced([ops] * 5, skip=frozenset(head | others)))

    assert result.n_missing == len(others)
    assert result.n_more >= len(head)


def test_op_that_two_passes_lack_is_reported_where_an_op_of_the_same_layers_is() -> (
    None
):
    """Some layers are quantised so that two of their matrices are seen."""
    some = {1, 3, 4, 6, 7, 9, 10, 11}
    ops = [
        op
        for op in one_pass(14)
        if op[1] != "MUL_MAT" or op[0] == "result" or int(op[0].split("-")[1]) in some
    ]
    names = [op[0] for op in ops]
    lost = {(p, names.index("ffn_out-6")) for p in (0, 1)}
    others = {(p, k) for p in (0, 1) for k in range(4 + p, len(ops) - 2, 11)}

    result = completeness(traced([ops] * 2, skip=frozenset(lost | others)))
    quiet = completeness(traced([ops] * 2, skip=frozenset(lost)))

    assert result.n_missing == len(lost | others)
    assert [gap.name for gap in result.gaps].count("ffn_out-6") == 2
    assert not quiet.n_missing, "so few that chance takes none twice"


def test_op_that_is_read_in_one_of_two_passes_is_missing_from_both() -> None:
    ops = one_pass(10)
    names = [op[0] for op in ops]
    computes, reads = names.index("norm-5"), names.index("Qcur-5")
    others = {(1, k) for k in range(4, 20, 5)}
    lost = {(0, computes), (1, computes), (1, reads), *others}

    result = completeness(traced([ops] * 2, skip=frozenset(lost)))

    assert result.n_missing == len(lost)


def test_batch_that_is_lost_in_the_middle_is_missing_as_a_whole() -> None:
    ops = one_pass()
    batch = frozenset((3, k) for k in range(4, 20))

    result = completeness(traced([ops] * 9, skip=batch))

    assert result.n_missing == len(batch)
    assert len({gap.after for gap in result.gaps}) == 1


def test_prompt_of_another_graph_is_no_loss() -> None:
    """Two ops that a prompt lacks, and nothing else reads: another graph."""
    ops = one_pass()
    prompt = [op for op in ops if op[1] != "CPY"]

    result = completeness(traced([prompt, *[ops] * 30]))

    assert (result.is_known, result.n_missing) == (True, 0)


@pytest.mark.parametrize("n_passes", [2, 3, 4, 6, 10, 20, 60])
def test_op_that_some_passes_lack_in_every_layer_is_no_loss(n_passes) -> None:
    ops = one_pass()
    other = [op for op in ops if op[1] != "CPY"]

    result = completeness(traced([other if i % 2 else ops for i in range(n_passes)]))

    assert result.n_missing == 0


@pytest.mark.parametrize("n_passes", [9, 12, 60])
def test_last_op_that_some_passes_lack_is_no_loss(n_passes) -> None:
    ops = one_pass()
    passes = [ops if i % 3 else ops[:-1] for i in range(n_passes)]

    result = completeness(traced(passes))

    assert (result.n_missing, result.n_varying) == (0, 1)
    assert "not counted: 1 op that varies" in completeness_text(result)
    alike = completeness(traced([ops] * n_passes))
    assert new_statement(completeness_text(result), completeness_text(alike))


def test_graphs_that_alternate_are_kinds_of_their_own() -> None:
    ops = one_pass()
    other = [(f"draft_{n}", o, tuple(f"draft_{s}" for s in r)) for n, o, r in ops[:9]]
    skip = frozenset([(2, 5), (3, 4)])

    assert is_whole(completeness(traced([ops, other] * 8)))
    assert completeness(traced([ops, other] * 8, skip=skip)).n_missing == 2


def test_ops_of_one_thread_only_are_not_missing_from_the_others() -> None:
    ops = one_pass()
    skip = frozenset((k * 4 + lane, 0) for k in range(12) for lane in (1, 2, 3))

    result = completeness(traced([ops] * 12, lanes=4, skip=skip))

    assert result.n_missing == 0


@pytest.mark.parametrize("seed", range(5))
def test_passes_without_any_rule_are_not_known(seed) -> None:
    rng = np.random.default_rng(seed)
    ops = one_pass(30)
    passes = [
        [ops[i] for i in rng.permutation(len(ops))[: rng.integers(20, 120)]]
        for _ in range(12)
    ]

    result = completeness(traced(passes))

    assert not result.is_known or not result.n_missing
    assert result.is_known or completeness_text(result).startswith("unknown: ")


def test_single_pass_is_not_known() -> None:
    result = completeness(traced([one_pass()]))

    assert (result.is_known, result.share) == (False, None)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("lanes", [1, 3])
def test_share_that_is_lost_at_random_is_reported(share, lanes) -> None:
    ops, n_passes = one_pass(20), 40
    n = len(ops)
    # Pairs of pass and op, of every lane.
    skip = lost_at_random(share, n_passes * lanes, n)

    result = completeness(traced([ops] * n_passes, lanes=lanes, skip=skip))

    assert result.n_missing == pytest.approx(len(skip), rel=0.05, abs=0.5)
    n_least = result.n_missing - result.n_fewer
    assert n_least <= len(skip) <= result.n_missing + result.n_more
    assert result.share == pytest.approx(1 - share, abs=0.005 + share / 20)


def test_what_a_share_rests_on_is_named_where_it_rests_on_it(monkeypatch) -> None:
    ops = one_pass(20)
    lost = lost_at_random(0.1, 2, len(ops))
    again = frozenset((k, op) for k, op in lost if k == 0 or (0, op) not in lost)

    def statement(skip: frozenset[tuple[int, int]], n_passes: int = 2) -> str:
        return completeness_text(completeness(traced([ops] * n_passes, skip=skip)))

    assert again < lost
    assert new_statement(statement(lost), statement(again))
    some = lost_at_random(0.02, 40, len(ops))
    compared = statement(some, 40)
    monkeypatch.setattr(runs, "_MAX_ROWS", 300)
    assert new_statements(statement(some, 40), compared)
    for few in (frozenset(), frozenset({(7, 30)})):
        assert new_statements(statement(some, 40), statement(few, 40))


def test_trace_that_is_still_being_read_is_not_judged() -> None:
    trace = traced([one_pass()] * 5)
    result = completeness(replace(trace, pending=frozenset({"names"})))

    assert new_statement(result.why, completeness(trace).why)


def test_loss_becomes_one_problem_and_silence_none() -> None:
    ops = one_pass()
    trace = traced([ops] * 5, skip=frozenset([(1, 7)]))

    report = with_completeness(trace, completeness(trace))
    again = with_completeness(report, completeness(report))

    (problem,) = (w for w in again.warnings if w.code == CODE)
    assert isinstance(problem, ReadWarning)
    assert (problem.severity, problem.count) == (Severity.DATA_LOSS, 1)
    assert "1 of 160 records missing (99.4 % complete" in problem.message
    assert "after record" in problem.place
    whole = traced([ops] * 5)
    assert with_completeness(whole, completeness(whole)) is whole


def test_records_that_follow_each_other_are_missing_together(tmp_path: Path) -> None:
    records = llama_trace(n_passes=10)
    n = len(records) // 10
    del records[3 * n + 5 : 3 * n + 8]
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(records, "256"))

    result = completeness(open_trace(path))

    assert (result.n_missing, result.n_there) == (3, len(records))
    assert {gap.after for gap in result.gaps} == {3 * n + 4}


@pytest.mark.parametrize("seed", range(6))
def test_op_of_a_repeated_name_is_missed_where_each_pass_lacks_another_one(seed):
    """Counts alone would say that a pass has one less; by place none is in doubt."""
    ops = one_pass(1)[:1]
    for i in range(9):
        ops += [(f"Qcur-{i}", "MUL_MAT", ()), ("repeated", "ADD", ())]
    ops += [(f"single-{i}", "MUL", ()) for i in range(12)]
    rng = np.random.default_rng(seed)
    places = 2 + 2 * rng.choice(9, 5, replace=False)
    # And one more of each pass, whose name comes once: so much is lost.
    others = 20 + rng.choice(10, 5, replace=False)
    skip = frozenset(
        (n, int(k)) for some in (places, others) for n, k in enumerate(some)
    )

    result = completeness(traced([ops] * 5, skip=skip))

    assert result.n_missing == len(skip)
    assert is_whole(completeness(traced([ops] * 5)))


def test_passes_that_all_end_elsewhere_lack_nothing() -> None:
    ops = one_pass()

    result = completeness(traced([ops[: 5 + 3 * k] for k in range(9)]))

    assert result.n_missing == 0


def test_partly_read_trace_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(llama_trace(6), "256"))
    trace = open_trace(path)
    part = ReadWarning(Severity.INFO, "range", "a part")

    assert is_whole(completeness(trace))
    assert not completeness(replace(trace, warnings=(part,))).is_known


def with_graph(trace: Trace, ops: Sequence[Op], types: Sequence[str]) -> Trace:
    """Return a trace with a graph of some ops; `types` of their first sources."""
    builder = TraceBuilder()
    builder.strings, builder.ops = trace.strings, OPS
    names = [f"w{i}" for i in range(len(ops))] + [op[0] for op in ops]
    n = len(ops)
    add_graph(
        builder,
        names,
        [(i, n + i) for i in range(n)],
        ops=[-1] * n + [op_number(op[1]) for op in ops],
        leaves=list(range(n)),
        token=0,
    )
    (graph,) = finished(builder).graphs
    dtype = builder.strings.intern_many([*types, *["f32"] * n])
    side = replace(trace, graphs=(replace(graph, dtype=dtype),))
    side = replace(finished(TraceBuilder()), strings=builder.strings, ops=OPS,
                   graphs=side.graphs)  # fmt: skip
    return join(trace, [SideFile(side, "graph")])


def test_graph_shows_what_a_single_pass_lacks() -> None:
    """One MUL_MAT of ten is lost; no MUL_MAT of another type is ever seen."""
    seen = [(f"ffn_out-{i}", "MUL_MAT", ()) for i in range(10)]
    unseen = [(f"Qcur-{i}", "MUL_MAT", ()) for i in range(5)]
    ops = [*seen[:5], *unseen, *seen[5:]]
    types = ["q6_K"] * 5 + ["q4_K"] * 5 + ["q6_K"] * 5
    trace = traced([[op for i, op in enumerate(seen) if i != 7]])

    assert not completeness(trace).is_known
    result = completeness(with_graph(trace, ops, types))

    assert (result.n_missing, result.n_there) == (1, 9)
    assert result.rests_on == ("the graph",)
    assert [(gap.name, gap.op) for gap in result.gaps] == [("ffn_out-7", "MUL_MAT")]
    assert gap_text(trace, result.gaps[0]) == "ffn_out-7 (MUL_MAT) in every pass"
    assert result.n_unseen == 5, "no MUL_MAT of that type has a record"
    report, _, unseen = completeness_text(result).partition("; ")
    assert report.endswith("records missing (90.0 % complete, based on the graph)")
    assert unseen.startswith("not counted: 5 ops of the graph")
    # Where each kind has a record, or none is in the graph, nothing is unseen.
    entries = completeness(with_graph(trace, seen, ["q6_K"] * 10))
    assert (entries.n_missing, entries.n_unseen) == (1, 0)
    assert new_statement(completeness_text(result), completeness_text(entries))
    assert new_statements(
        completeness_text(result), completeness_text(completeness(trace))
    )
    # What another pass has is not lacked in every pass.
    passes = traced([seen, [op for i, op in enumerate(seen) if i != 7]] * 2)
    gaps = completeness(passes).gaps
    known = "\n".join(gap_text(passes, gap) for gap in gaps)
    assert "ffn_out-7 (MUL_MAT) after record" in known
    assert new_statement(gap_text(trace, result.gaps[0]), known)
    # A recording that stops before the end of the graph lacks nothing of its end.
    cut = traced([seen[:8]])
    assert is_whole(completeness(with_graph(cut, ops, types)))


# -- real traces --------------------------------------------------------------------


def records_of(path: Path) -> tuple[bytes, list[bytes]]:
    """Return the head of a trace file and its records."""
    data = path.read_bytes()
    if path.suffix == ".ggmlviz":
        return data[:12], list(events_of(data))
    name = path.name.replace("-", "_")
    size = next(size for size in (1024, 256, 128, 64) if f"_{size}" in name)
    whole = [data[i : i + size] for i in range(0, len(data) // size * size, size)]
    return b"", [record for record in whole if any(record)]


def events_of(data: bytes) -> Iterator[bytes]:
    """Yield the events of a c64 stream: 45 bytes, a flag, and a label."""
    at = 12
    while at < len(data):
        end = at + 46
        if data[end - 1]:
            end += 4 + int.from_bytes(data[end : end + 4], "little")
        yield data[at:end]
        at = end


def check_losses(path: Path, folder: Path, share: float, seeds: range) -> None:
    """Check that the range that is stated holds what is taken out, over some seeds."""
    head, records = records_of(path)
    lost = value = 0
    for seed in seeds:
        n = max(round(share * len(records)), 1)
        chosen = np.random.default_rng(seed).choice(len(records), n, replace=False)
        gone = set(chosen.tolist())
        values = [r for i, r in enumerate(records) if i not in gone]
        copy = folder / path.name
        copy.write_bytes(head + b"".join(values))
        result = completeness(open_trace(copy))
        assert result.is_known
        # How many events of memory there should be is unknown.
        n -= sum(bool(head) and records[i][0] >= 4 for i in gone)
        low, high = result.n_missing - result.n_fewer, result.n_missing + result.n_more
        assert low <= n <= high
        assert result.n_varying == 0
        # Exact where little is lost; and never so wide that it is useless.
        assert high - low <= (0 if share < 0.005 else max(1.2 * n, 4))
        text = completeness_text(result)
        assert ("; likely " in text) == (low < high)
        lost, value = lost + n, value + result.n_missing
        assert result.n_missing == pytest.approx(n, rel=0.05)
    assert value == pytest.approx(lost, rel=0.05)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", SAMPLES)
def test_random_losses_of_samples_are_reported(name, share, tmp_path) -> None:
    check_losses(ROOT / "resources" / "samples" / name, tmp_path, share, range(8))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", CORPUS)
def test_random_losses_of_real_traces_are_reported(name, share, tmp_path) -> None:
    check_losses(need_corpus() / name, tmp_path, share, range(8))


def test_begin_of_a_pass_whose_first_ops_others_lack_is_found(tmp_path: Path) -> None:
    """Where the pass that leads lacks an op of the begin, this is no op of the end."""
    name = SAMPLES[2]
    _, records = records_of(ROOT / "resources" / "samples" / name)
    gone = set(np.random.default_rng(13).choice(len(records), 28, False).tolist())
    copy = tmp_path / "trace-1024.bin"
    copy.write_bytes(b"".join(r for i, r in enumerate(records) if i not in gone))

    result = completeness(open_trace(copy))

    assert result.n_missing in (27, 28), "two that are there were missed before"
    assert result.n_missing + result.n_more >= 28


@pytest.mark.parametrize("lost", [(), (5,), (5, 21)])
@pytest.mark.parametrize("thread", [1, 2])
def test_ops_of_threads_are_alike_where_one_of_them_shows_graphs(
    thread: int, lost: tuple[int, ...], tmp_path: Path
) -> None:
    """As the tracer's event streams: graphs are events of the first thread."""
    one = events.run(12, 30, interleaved=True)
    others = [
        replace(event, thread=2 + i, time=event.time + 3 + i)
        for event in one
        for i in range(3)
        if event.kind in (events.OP_BEGIN, events.OP_END)
    ]
    both = sorted([*one, *others], key=lambda event: event.time)
    ops = [e for e in both if (e.kind, e.thread) == (events.OP_BEGIN, thread)]
    gone = [ops[30 * (2 + i) + at] for i, at in enumerate(lost)]
    left = [
        event
        for event in both
        if not any(
            (event.thread, event.ptr) == (op.thread, op.ptr)
            and 0 <= event.time - op.time < 100
            for op in gone
        )
    ]
    path = events.write(tmp_path / "t.ggmlviz", left)

    result = completeness(open_trace(path))

    assert len(both) - len(left) == 2 * len(lost)
    assert (result.is_known, result.n_missing) == (True, 2 * len(lost))
    assert result.n_varying == 0


def test_whole_samples_lack_nothing() -> None:
    for name in SAMPLES:
        assert is_whole(completeness(open_trace(ROOT / "resources" / "samples" / name)))


def test_whole_traces_of_the_corpus_lack_nothing() -> None:
    corpus = need_corpus()
    kinds = ("ggmlviz", "tensor-trace", "token")
    paths = [
        *corpus.glob("tracer/trace_*.bin"),
        *corpus.glob("ggmlviz/**/layout_*.ggmlviz"),
        corpus / "ggmlviz" / "test_trace.ggmlviz",
        *corpus.glob("bsc/**/traces/*.json"),
    ]
    assert len(paths) > 20, kinds
    known = 0
    for path in paths:
        result = completeness(open_trace(path))
        assert not result.n_missing, path
        assert not result.n_varying, path
        known += result.is_known
    assert known >= 20


@pytest.mark.parametrize("seed", range(12))
def test_random_spans_raise_no_alarm(seed) -> None:
    for trace in (random_links_trace(seed), random_trace(seed, 300)):
        result = completeness(trace)

        assert not result.n_missing, completeness_text(result)


@pytest.mark.parametrize("seed", range(3))
def test_few_names_in_ever_other_numbers_are_not_known(seed) -> None:
    rng = np.random.default_rng(seed)
    names = one_pass(4)
    passes = [[names[i] for i in rng.integers(0, 8, 120)] for _ in range(30)]

    assert not completeness(traced(passes)).is_known


def test_spans_of_one_name_are_not_known() -> None:
    result = completeness(traced([one_pass()[:1]] * 20))

    assert not result.is_known


def nearly_the_same(members: dict[str, set[int]], named: str) -> set[int]:
    """Return the most layers of those that are nearly those of one: by all pairs."""
    own = members[named]
    unions = [own]
    for other in members.values():
        if len(own & other) >= 0.75 * len(own | other):
            unions.append(own | other)
    return max(unions, key=len)


@pytest.mark.parametrize("most", [256, 3])
def test_layers_of_an_op_are_those_of_the_most_like_it(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(expected, "_MAX_SETS", most)
    rng = np.random.default_rng(3)
    members = {
        f"op{k}": {
            int(x) for x in np.flatnonzero(rng.random(40) < 0.1 + 0.02 * (k % 20))
        }
        | {100 * k + i for i in range(k % 3)}
        for k in range(60)
    }
    # Some have the layers of another one, but for one of them.
    for k in range(0, 60, 3):
        members[f"like{k}"] = members[f"op{k}"] ^ {int(rng.integers(0, 40))}
    result = expected.LayerSets(
        {(name, 0): own for name, own in members.items()}, set(range(10_000))
    )

    for name, own in members.items():
        if len(own) < 4:
            continue
        layers, of_all = result.expected((name, 0)), nearly_the_same(members, name)
        assert own <= layers
        assert len(layers) <= len(of_all)
        assert most < len(members) or layers == of_all
    assert len(result.usual) <= most


def nameless(n_passes: int, shared: str, folder: Path, *, has_layers: bool) -> Trace:
    """Return a trace of 64-byte records, one per source, of passes that are whole.

    Parameters
    ----------
    shared : what shares an address: "none", activations that are called alike but for
        their layer ("kinds"), "all" activations, or "weights" of a kind as well.
    """
    address: dict[str, int] = {}

    def moved(source: Src) -> Src:
        name = source.name
        if shared == "weights" or (source.mem and shared != "none"):
            name = re.sub(r"[0-9]", "", name)
        if source.mem and shared in ("all", "weights"):
            name = "x"
        at = 4096 * address.setdefault(name, len(address) + 1)
        return replace(source, ptr=at, where=at)

    records = [
        replace(
            record,
            sources=tuple(map(moved, record.sources)),
            layer=record.layer if has_layers else NO_LAYER,
        )
        for record in llama_trace(n_passes)
    ]
    path = folder / "trace.bin"
    path.write_bytes(encode(one_source_each(records), "64p"))
    return open_trace(path)


@pytest.mark.parametrize("has_layers", [True, False])
@pytest.mark.parametrize("n_passes", [1, 4])
@pytest.mark.parametrize("shared", ["kinds", "weights"])
def test_layers_at_the_same_addresses_are_not_taken_for_passes(
    tmp_path: Path, shared: str, n_passes: int, has_layers: bool
) -> None:
    trace = nameless(n_passes, shared, tmp_path, has_layers=has_layers)

    result = completeness(trace)

    assert (result.share, result.n_missing, result.n_passes) == (None, 0, 0)
    assert CODE not in {w.code for w in with_completeness(trace, result).warnings}


@pytest.mark.parametrize("has_layers", [True, False])
@pytest.mark.parametrize("shared", ["all", "none"])
def test_passes_whose_weights_have_addresses_of_their_own_are_reported(
    tmp_path: Path, shared: str, has_layers: bool
) -> None:
    trace = nameless(4, shared, tmp_path, has_layers=has_layers)

    result = completeness(trace)

    assert (result.is_known, result.n_missing, result.n_passes) == (True, 0, 4)
