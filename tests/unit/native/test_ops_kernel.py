"""Lines of lists of ops: compiled scan and regular expressions agree."""

from collections.abc import Iterator

import numpy as np
import pytest

import op_files
from ggscope.readers.common import line_table
from ggscope.readers.common.op_lines import Kind, OpLines, scan_op_text
from oracles.op_lines import Row, rows_of


def scanned_rows(lines: OpLines) -> list[Row]:
    texts = [
        tuple(lines.texts[n] if n >= 0 else None for n in row)
        for row in lines.text.tolist()
    ]
    return [
        (Kind(kind).name, line, text, tuple(values))
        for kind, line, text, values in zip(
            lines.kind.tolist(), lines.line.tolist(), texts, lines.value.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def samples(seed: int) -> Iterator[bytes]:
    graphs = op_files.graphs(seed)
    yield op_files.scheduler(graphs)
    yield op_files.scheduler(graphs, clock=True)
    yield op_files.scheduler(graphs, use="use=3", prefix="llama-1  | ")
    yield op_files.vulkan(op_files.vulkan_lists(seed))
    yield op_files.vulkan(op_files.vulkan_lists(seed), old=True)
    yield op_files.vulkan(op_files.vulkan_lists(seed), prefix="Nov 26 1:2:03 h l[1]: ")
    for old in (False, True):
        yield op_files.hexagon(op_files.npu_ops(seed, 4), old=old, clock=not old)
    yield op_files.batch(3, [9, 4], 1 << 33, 9_000_000).encode()


@pytest.mark.parametrize("seed", range(6))
def test_whole_lines_show_the_same(seed):
    for data in samples(seed):
        expected = rows_of(data.decode())

        assert len(expected) > 0
        assert scanned_rows(scan_op_text(data)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_lines_between_others_and_in_colours_show_the_same(seed):
    rng = np.random.default_rng(seed)
    others = (b"srv  x: y\n", b"\n", b"\x1b[0mmain: load\x1b[0m\n", b"Total time: x\n")
    for data in samples(seed):
        made = []
        for line in data.splitlines(keepends=True):
            if rng.random() < 0.2:
                made.append(others[int(rng.integers(len(others)))])
            is_red = rng.random() < 0.3
            made.append(b"\x1b[31m" + line[:-1] + b"\x1b[0m\n" if is_red else line)
        text = b"".join(made)

        assert scanned_rows(scan_op_text(text)) == rows_of(text.decode())


@pytest.mark.parametrize("seed", range(6))
def test_lines_that_are_cut_show_the_same(seed):
    rng = np.random.default_rng(seed)
    for data in samples(seed):
        lines = data.splitlines()
        cut = [line[: int(rng.integers(len(line) + 1))] for line in lines]
        text = b"".join(line + b"\n" for line in cut)

        assert scanned_rows(scan_op_text(text)) == rows_of(text.decode())


def test_rows_that_fill_several_tables_are_one_list(monkeypatch):
    monkeypatch.setattr(line_table, "BLOCK_ROWS", 300)
    data = op_files.scheduler(op_files.graphs(1, 300), clock=True)

    lines = scan_op_text(data)

    assert len(lines) > 3000
    assert scanned_rows(lines) == rows_of(data.decode())
    assert lines.n_broken == 0
