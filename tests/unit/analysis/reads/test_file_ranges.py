"""Tensors of a range of the model file, against a label per byte."""

from dataclasses import replace

import numpy as np
import pytest

import bigmoe_files
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.file_ranges import RangePart, parts_of_range
from ggscope.descriptions.spans import access_facts
from ggscope.model.tables import Space
from ggscope.model.trace import ModelFile, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from reads_builder import moe_reads
from support import ROOT

MODEL = ROOT / "resources" / "samples" / "moe-experiment" / "model.gguf"


def plain_parts(trace: Trace, offset: int, size: int) -> list[RangePart]:
    """Return the parts of a range, byte by byte."""
    files, labels = file_map(trace), {}
    for unit in range(len(files)):
        first = int(files.offset[unit])
        for byte in range(first, first + int(files.size[unit])):
            labels[byte] = int(files.tensor[unit]), int(files.expert[unit])
    parts: list[RangePart] = []
    for byte in range(offset, offset + max(size, 1)):
        if byte not in labels:
            continue
        tensor, expert = labels[byte]
        n = int(size >= 0)
        last = parts[-1] if parts else None
        is_same = last is not None and last.tensor == tensor
        if is_same and last.last == expert:
            parts[-1] = replace(last, n_bytes=last.n_bytes + n)
        elif is_same and expert >= 0 and last.last + 1 == expert:
            parts[-1] = replace(last, last=expert, n_bytes=last.n_bytes + n)
        else:
            parts.append(RangePart(tensor, expert, expert, n))
    return parts


def test_parts_are_those_of_each_byte():
    trace, rng = moe_reads(), np.random.default_rng(7)
    extent = file_map(trace).extent

    for _ in range(60):
        offset = int(rng.integers(0, min(extent, 60_000)))
        size = int(rng.choice([-1, 0, 1, 700, 9000]))
        expected = plain_parts(trace, offset, size)
        if size == 0:
            expected = [replace(part, n_bytes=1) for part in expected]
        actual = [*parts_of_range(trace, offset, size)]
        if size == 0:
            actual = [replace(part, n_bytes=1) for part in actual]
        assert actual == expected, (offset, size)


@pytest.mark.parametrize(
    ("offset", "size"), [(-1, 5), (1 << 62, 5), (1 << 50, -1), (0, -1)]
)
def test_places_outside_have_no_part(offset, size):
    assert len(parts_of_range(moe_reads(), offset, size)) <= (offset == 0)


def test_of_several_files_none_is_guessed():
    trace = moe_reads()
    two = replace(trace, models=(*trace.models, ModelFile("b.gguf", 99)))

    assert parts_of_range(trace, int(trace.tensors.offset.max()), 1)
    assert parts_of_range(two, int(trace.tensors.offset.max()), 1) == ()


def test_places_that_only_accesses_show_do_not_count():
    trace = moe_reads()
    tensors = replace(trace.tensors, place=None)
    alone = replace(trace, tensors=tensors)

    assert parts_of_range(alone, int(trace.tensors.offset.max()), 1) == ()


def test_reads_of_an_io_trace_name_the_tensors_of_a_model_beside(tmp_path):
    size = MODEL.stat().st_size
    rows = bigmoe_files.io_trace(3)[1]
    for i, row in enumerate(rows):
        row["offset"] %= size
        row["read_bytes"] = row["req_bytes"] = 100_000 if i % 3 else 40
    path = tmp_path / "io.csv"
    path.write_bytes(bigmoe_files.table("io_trace", rows))

    alone = open_bundle(survey([path]))
    trace = open_bundle(survey([path, MODEL]))

    assert all(fact.name == "N/A" for fact in access_facts(alone, 0))
    names = {trace.strings[i] for i in trace.tensors.name.tolist()}
    n_single = 0
    for span in np.flatnonzero(trace.accesses.pattern >= 0).tolist():
        what = trace.accesses.of_span(span)
        (fact,) = access_facts(trace, span)
        assert what.space[0] == Space.FILE
        parts = parts_of_range(trace, int(what.offset[0]), int(what.size[0]))
        assert len(fact.of_range) == min(len(parts), 12)
        if len({part.tensor for part in parts}) == 1:
            n_single += 1
            assert fact.tensor == parts[0].tensor
        else:
            assert fact.tensor == -1
        if parts:
            assert fact.name.partition(" and ")[0].partition("[")[0] in names
    assert n_single
