"""Use of the KV cache against a plain reading of the lines, of the corpus as well."""

import re
from pathlib import Path

import numpy as np
import pytest

import people
from ggscope.model.trace import Trace
from ggscope.readers.logs.cells import CellUse
from ggscope.readers.logs.lines import scan_text
from ggscope.readers.registry import open_trace

NAME = "KV cache used, derived"
SIZE = (
    "llama_kv_cache: size =  640.00 MiB ({cells:6} cells,  16 layers,  8/{streams} "
    "seqs), K (f16):  320.00 MiB, V (f16):  320.00 MiB"
)
LOAD = "srv    load_model: loading model '/models/tiny.gguf'"
HOLDS = (
    "slot update_slots: id  {slot} | task {task} | n_tokens = {n}, memory_seq_rm [{n}, "
    "end)",
    "slot update_slots: id  {slot} | task {task} | cached n_tokens = {n}, "
    "memory_seq_rm [{n}, end)",
    "slot update_slots: id  {slot} | task {task} | prompt processing progress, "
    "n_tokens = {n}, batch.n_tokens = 9, progress = 0.5",
    "slot update_slots: id  {slot} | task {task} | prompt processing done, n_tokens = "
    "{n}, batch.n_tokens = 4",
    "slot update_slots: id  {slot} | task {task} | prompt processing, n_tokens = {n}, "
    "progress = 0.50, t = 1.00 s / 5.00 tokens per second",
    "slot      release: id  {slot} | task {task} | stop processing: n_tokens = {n}, "
    "truncated = 0",
)
CLEAR = "slot prompt_clear: id  {slot} | task {task} | clearing prompt with 9 tokens"


def random_lines(seed: int, n: int = 300) -> list[str]:
    rng = np.random.default_rng(seed)
    lines = [LOAD]
    for _ in range(n):
        chance = rng.random()
        values = {
            "slot": int(rng.integers(5)), "task": int(rng.integers(90)),
            "n": int(rng.integers(5000)), "cells": int(rng.integers(1, 1 << 20)),
            "streams": int(rng.integers(1, 9)),
        }  # fmt: skip
        if chance < 0.05:
            form = SIZE
        elif chance < 0.08:
            form = "slot launch_slot_: id  {slot} | task {task} | processing task"
        elif chance < 0.1:
            form = LOAD
        elif chance < 0.15:
            form = CLEAR
        else:
            form = HOLDS[int(rng.integers(len(HOLDS)))]
        lines.append(form.format(**values))
    return lines


def plain_use(lines: list[str]) -> list[tuple[int, float]]:
    """Return (line, percent) by a dict of slots."""
    held: dict[str, int] = {}
    cells, has_worked, out = 0, False, []
    for number, line in enumerate(lines):
        if "loading model" in line and has_worked:
            held, cells, has_worked = {}, 0, False
        has_worked |= "processing task" in line or "stop processing" in line
        size = re.search(r"\( *(\d+) cells,.*/(\d+) seqs", line)
        state = re.search(r"id +(\d+) .*\|.*[| ]n_tokens = (\d+)", line)
        state = None if "checkpoint" in line else state
        cleared = re.search(r"id +(\d+) .*clearing prompt", line)
        if size and not cells:
            cells = int(size[1]) * int(size[2])
            out.append((number, 0.0))
        elif cleared:
            held[cleared[1]] = 0
        elif state:
            n = re.search(r"n_tokens = (\d+)", line)
            held[state[1]] = int(n[1])
        if cells and (state or cleared):
            out.append((number, 100 * sum(held.values()) / cells))
    return out


def runs_of(lines: list[str]) -> np.ndarray:
    """Return the start of each line as `plain_use` has them."""
    run, has_worked, out = 0, False, []
    for line in lines:
        if "loading model" in line and has_worked:
            run, has_worked = run + 1, False
        has_worked |= "processing task" in line or "stop processing" in line
        out.append(run)
    return np.array(out, np.int64)


class Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def use(lines: list[str], cuts: list[int]) -> list[tuple[int, float]]:
    """Return (line, percent) of lines that come in parts."""
    cell_use, out, runs = CellUse(), [], runs_of(lines)
    for begin, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        data = "".join(line + "\n" for line in lines[begin:end]).encode()
        scanned = scan_text(np.frombuffer(data, np.uint8))
        rows, percent = cell_use.add(
            Bytes(data), scanned, runs[begin:end][scanned.line]
        )
        out += zip((scanned.line[rows] + begin).tolist(), percent.tolist(), strict=True)
    return out


@pytest.mark.parametrize("seed", range(20))
def test_use_is_that_of_lines_one_by_one(seed):
    lines = random_lines(seed)
    # Lines of an unknown size have none, those behind it what slots held before.
    expected = plain_use(lines)
    cuts = sorted(np.random.default_rng(seed).integers(0, 300, 9).tolist())

    for parts in ([], cuts):
        actual = use(lines, parts)
        assert [line for line, _ in actual] == [line for line, _ in expected]
        assert [p for _, p in actual] == pytest.approx([p for _, p in expected])


def counter(trace: Trace, name: str = NAME) -> list[float] | None:
    counters = [series for series in trace.counters if series.name == name]
    return counters[0].value.tolist() if counters else None


def text_of(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def test_log_has_the_counter_and_the_size(tmp_path):
    path = tmp_path / "x.log"
    values = {"task": 7, "n": 512}
    lines = [LOAD, SIZE.format(cells=4096, streams=1)]
    lines += [HOLDS[2].format(slot=0, **values), HOLDS[5].format(slot=1, **values)]
    lines += ["llama_memory_recurrent: size = 9.00 MiB ( 8 cells, 40 layers, 8 seqs)"]
    lines += [CLEAR.format(slot=0, task=7)]
    path.write_bytes(text_of(lines))

    trace = open_trace(path)

    assert counter(trace) == [0.0, 12.5, 25.0, 12.5]
    assert trace.log is not None
    assert dict(trace.log.facts)["KV cache"].startswith("640.00 MiB ( 4096 cells")


def test_log_without_the_size_has_no_counter(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(text_of([LOAD, HOLDS[5].format(slot=1, task=7, n=512)]))

    trace = open_trace(path)

    assert counter(trace) is None
    assert counter(trace, "slot 1 context") == [512.0]


@people.each("log", lambda name, _: name.startswith("llama-server-log"))
def test_logs_of_people_have_the_counter(tmp_path, name):
    path = tmp_path / "x.txt"
    path.write_bytes(people.content(name))
    lines = people.content(name).decode().splitlines()

    trace: Trace = open_trace(Path(path))

    assert counter(trace) == pytest.approx([p for _, p in plain_use(lines)])
    assert max(counter(trace) or [0]) > 1
