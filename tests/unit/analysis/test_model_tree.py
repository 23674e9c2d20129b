"""The tree of tensors: its groups and totals, against plain loops over the tensors."""

import math
import re
from collections import defaultdict

import numpy as np
import pytest

from builders import finished, llama_like_trace
from ggscope.analysis.filters.text import text_matcher
from ggscope.analysis.model_tensors import model_tensors
from ggscope.analysis.model_tree import (
    TREE_BY,
    TensorReads,
    TensorTree,
    levels_of,
    tensor_reads,
    tensor_tree,
)
from ggscope.analysis.reads.weights import booked_on
from ggscope.analysis.statistics.table import stat_table
from ggscope.model.builder import TraceBuilder
from ggscope.model.names import parse
from ggscope.model.tables import Quality, quality_of
from ggscope.model.tensors import Place
from ggscope.model.trace import Trace
from ggscope.readers.common.tensor_rows import TensorRows
from gguf_files import T, encode, read_gguf
from reads_builder import moe_reads


def random_tensors(seed: int) -> list[T]:
    """Return tensors of layers in any order, of several types and parts."""
    random = np.random.default_rng(seed)
    bases = ("attn_q.weight", "attn_norm.weight", "ffn_up.weight", "ffn_up_exps.weight")
    tensors = [T("token_embd.weight", (32, 7), "f16"), T("odd", (5,), "f32")]
    for layer in random.permutation(12).tolist():
        for base in random.permutation(bases)[: random.integers(1, 5)].tolist():
            kind = random.choice(["f32", "f16", "q8_0"])
            tensors.append(T(f"blk.{layer}.{base}", (32, int(random.integers(1, 9))),
                             str(kind)))  # fmt: skip
    return tensors


def no_reads(trace: Trace) -> TensorReads:
    return TensorReads(None, None, None, None, np.zeros(len(trace.tensors), np.bool_))


def key_of(trace: Trace, row: int, level: str, file: int) -> object:
    """Return the group of a tensor by its name alone."""
    name = trace.strings[int(trace.tensors.name[row])]
    match level:
        case "layer":
            match = re.match(r"blk\.(\d+)\.", name)
            return int(match[1]) if match else -1
        case "component":
            return parse(name).component
        case "type":
            return int(trace.tensors.type[row])
        case "file":
            return file
    return re.sub(r"^blk\.\d+\.", "blk.*.", name)


def plain_groups(trace: Trace, tree: TensorTree) -> dict[tuple[object, ...], list[int]]:
    """Return the rows of each group, by its key behind those of its parents."""
    listing = model_tensors(trace)
    groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for at in sorted(tree.order.tolist()):
        row = int(listing.rows[at])
        path: tuple[object, ...] = ()
        for level in levels_of(tree.by):
            path += (key_of(trace, row, level, int(listing.file[at])),)
            groups[path].append(row)
    return dict(groups)


def tree_groups(tree: TensorTree) -> dict[tuple[object, ...], int]:
    """Return the number of each group, likewise."""
    path: list[object] = []
    groups = {}
    for i, (level, key) in enumerate(zip(tree.level.tolist(), tree.key, strict=True)):
        del path[level:]
        path.append(key)
        groups[tuple(path)] = i
    return groups


@pytest.mark.parametrize("by", TREE_BY)
@pytest.mark.parametrize("seed", range(4))
def test_groups_and_totals_are_those_of_a_plain_loop(tmp_path, by, seed) -> None:
    trace = read_gguf(tmp_path, encode(random_tensors(seed)))
    listing = model_tensors(trace)

    tree = tensor_tree(trace, listing, by, no_reads(trace))

    plain, result = plain_groups(trace, tree), tree_groups(tree)
    assert plain.keys() == result.keys()
    sizes, shapes = trace.tensors.size, trace.tensors.shape
    for path, rows in plain.items():
        i = result[path]
        size = sum(int(sizes[row]) for row in rows)
        elements = sum(math.prod(shapes[row].tolist()) for row in rows)
        inside = tree.order[tree.first[i] : tree.stop[i]]
        assert sorted(listing.rows[inside].tolist()) == sorted(rows)
        assert tree.sums.n[i] == len(rows)
        assert (tree.sums.size[i], tree.sums.elements[i]) == (size, elements)
        assert tree.sums.bits[i] == pytest.approx(8 * size / elements)
    assert tree.total.n.tolist() == [len(listing)]
    assert tree.total.size.tolist() == [int(sizes.sum())]
    assert tree.total.accesses is None


def test_layers_come_by_number_and_parts_and_types_by_size(tmp_path) -> None:
    trace = read_gguf(tmp_path, encode(random_tensors(7)))
    listing = model_tensors(trace)

    by_layer = tensor_tree(trace, listing, "layer", no_reads(trace))
    assert list(by_layer.key) == [-1, *range(12)]

    for by in ("component", "type"):
        tree = tensor_tree(trace, listing, by, no_reads(trace))
        tops = tree.sums.size[tree.level == 0].tolist()
        assert tops == sorted(tops, reverse=True)


def test_only_chosen_tensors_are_grouped(tmp_path) -> None:
    trace = read_gguf(tmp_path, encode(random_tensors(1)))
    listing = model_tensors(trace)
    matches = text_matcher("attn")
    names = [trace.strings[i] for i in trace.tensors.name[listing.rows].tolist()]
    chosen = np.flatnonzero([matches(name) for name in names])

    tree = tensor_tree(trace, listing, "component", no_reads(trace), chosen)

    assert sorted(tree.order.tolist()) == chosen.tolist()
    assert {"attention", "norm"} == {
        tree.key[i] for i in np.flatnonzero(tree.level == 0)
    }
    nothing = tensor_tree(trace, listing, "layer", no_reads(trace), chosen[:0])
    assert (len(nothing), nothing.total.n.tolist()) == (0, [0])


def test_slices_of_experts_count_once_with_their_stack() -> None:
    slices = [f"blk.0.ffn_up_exps.weight[{i}]" for i in range(4)]
    builder = TraceBuilder()
    names = ["blk.0.ffn_up_exps.weight", *slices, "blk.1.attn_q.weight"]
    rows = TensorRows()
    for i, name in enumerate(names):
        size = 40 if not i else 10
        rows.add(
            name, offset=100 * i, size=size, type_number=0, shape=(size // 4,), file=-1
        )
    builder.tensors = rows.table(builder.strings, place=Place.STATED)
    trace = finished(builder)

    tree = tensor_tree(trace, model_tensors(trace), "layer", no_reads(trace))

    assert list(tree.key) == [0, 1]
    assert tree.sums.n.tolist() == [1, 1]
    assert tree.sums.size.tolist() == [40, 10]
    assert tree.sums.elements.tolist() == [10, 2]
    assert tree.total.n.tolist() == [2]


@pytest.mark.parametrize("make", [llama_like_trace, moe_reads])
def test_accesses_and_time_are_those_of_every_span(make) -> None:
    trace = make()
    reads = tensor_reads(trace)
    listing = model_tensors(trace)
    tree = tensor_tree(trace, listing, "layer", reads)

    booked, spans = booked_on(trace), trace.spans
    ticks = np.zeros(len(trace.tensors), np.int64)
    loose = dict(
        zip(booked.loose_span.tolist(), booked.loose_tensor.tolist(), strict=True)
    )
    quality = quality_of(spans.flags)
    for span in np.flatnonzero(spans.op >= 0).tolist():
        tensor = int(booked.per_pattern[int(trace.accesses.pattern[span])])
        if tensor < 0:
            tensor = loose.get(span, tensor)
        if tensor == -2 and booked.computed is not None:
            tensor = int(booked.computed[span])
        if tensor >= 0 and quality[span] <= Quality.DERIVED:
            ticks[tensor] += int(spans.end[span] - spans.start[span])
    assert reads.ticks is not None
    assert reads.ticks.tolist() == ticks.tolist()
    for i in range(len(tree)):
        rows = listing.rows[tree.order[tree.first[i] : tree.stop[i]]]
        assert tree.sums.ticks[i] == ticks[rows].sum()
        assert tree.sums.accesses[i] == reads.accesses[rows].sum()
        assert tree.sums.bytes[i] == reads.bytes[rows].sum()


def test_time_of_a_tensor_is_that_of_statistics() -> None:
    trace = llama_like_trace()
    reads = tensor_reads(trace)
    names = [trace.strings[i] for i in trace.tensors.name.tolist()]

    totals = {row.key: row.total for row in stat_table(trace, "tensor").rows}

    of_name: defaultdict[str, int] = defaultdict(int)
    for name, ticks in zip(names, reads.ticks.tolist(), strict=True):
        of_name[name] += ticks
    booked = {name for name in of_name if name in totals}
    assert booked
    for name in booked:
        assert of_name[name] == totals[name]


def test_model_without_a_trace_has_neither_accesses_nor_time(tmp_path) -> None:
    reads = tensor_reads(read_gguf(tmp_path, encode()))

    assert (reads.accesses, reads.bytes, reads.ticks) == (None, None, None)
    assert not reads.is_open.any()


def test_unknown_shapes_and_sizes_are_counted_and_not_summed(tmp_path) -> None:
    tensors = [T("a.weight", (32, 2)), T("b.weight", (32, 2), 250, n_dims=2)]
    trace = read_gguf(tmp_path, encode(tensors))
    huge = [T("a.weight", (32, 2)), T("b.weight", (1 << 40, 1 << 40))]
    impossible = read_gguf(tmp_path, encode(huge))

    known = tensor_tree(trace, model_tensors(trace), "tensor", no_reads(trace)).total
    listing = model_tensors(impossible)
    broken = tensor_tree(impossible, listing, "tensor", no_reads(impossible)).total

    assert known.elements.tolist() == [128]
    assert (broken.n_unsized.tolist(), broken.n_unshaped.tolist()) == ([1], [1])
    assert broken.size.tolist() == [256]
    assert broken.bits.tolist() == [32.0]
