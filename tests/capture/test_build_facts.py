"""Builds of a sidecar: alike ones as what differs, and what a reader makes of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordings
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from ggscope_capture.builds import Build
from ggscope_capture.columns import text
from ggscope_capture.ring import DTYPES
from ggscope_capture.ring_format import (
    TENSOR_SOURCES,
    UNKNOWN_U32,
    UNKNOWN_U64,
    DefBuild,
)
from ggscope_capture.sidecar import build_facts

N_NODES, N_TENSORS = 60, 90


def build(number: int, *, seed: int = 0, n_tokens: int = 1, names: str = "t") -> Build:
    """Return a build whose sizes and places follow `n_tokens`, with some at random."""
    chance, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    head = DefBuild(number, N_NODES, N_TENSORS, N_NODES - 3, 3, 0, 0)
    tensors = np.zeros(N_TENSORS, DTYPES["def_tensor"])
    is_weight = np.arange(N_TENSORS) >= N_TENSORS - 20
    width = fixed.integers(1, 9, N_TENSORS) * 64
    tensors["flags"] = np.where(is_weight, 4, 1)
    tensors["layer"] = np.arange(N_TENSORS) // 30
    tensors["bytes"] = np.where(is_weight, 4096, width * 4 * n_tokens)
    place = fixed.integers(0, 12, N_TENSORS) * (1 << 20)
    tensors["data"] = 0x7F00_0000_0000 + place * (1 if n_tokens == 1 else 3)
    few = chance.integers(0, N_TENSORS, seed % 5)
    tensors["data"][few] = chance.integers(1, 1 << 62, len(few))
    tensors["offset"] = np.where(is_weight, place + 4096, UNKNOWN_U64)
    tensors["model"] = np.where(is_weight, 0, UNKNOWN_U32)
    tensors["weight"] = np.where(is_weight, np.arange(N_TENSORS), UNKNOWN_U32)
    tensors["buffer"] = np.where(is_weight, UNKNOWN_U32, 3 + n_tokens % 2)
    tensors["sources"] = UNKNOWN_U32
    tensors["sources"][:N_NODES, :2] = fixed.integers(0, N_TENSORS, (N_NODES, 2))
    assert tensors["sources"].shape[1] == TENSOR_SOURCES
    return Build(head, tensors, [f"{names}-{i}" for i in range(N_TENSORS)])


def whole(made: Build) -> dict[str, Any]:
    """Return a build as version 1 has it."""
    (facts,) = build_facts([made], has_names=True)
    path = {"builds": [facts]}
    return dict(recordings.unpacked(path, 1 << 20)["builds"][0])


def opened(folder: Path, builds: list[dict[str, Any]], version: int) -> Trace:
    graphs = recordings.sidecar()["graph_list"]
    for graph in graphs:
        graph |= {"build": graph["graph"], "n_nodes": N_NODES}
    facts = recordings.sidecar(graph_list=graphs, builds=builds)
    if version == 2:
        facts = recordings.packed(facts | {"builds": []}) | {"builds": builds}
    path = folder / f"v{version}.bin"
    path.write_bytes(recordings.records())
    path.with_suffix(".json").write_text(json.dumps(facts))
    trace = open_bundle(survey((path,)))
    assert trace.check() == []
    assert {w.code for w in trace.warnings} == {"shared_ops"}
    return trace


def reads(trace: Trace) -> list[tuple[object, ...]]:
    """Return the name of each span, and what it reads with places and sizes."""
    items = []
    for row in range(len(trace.spans)):
        each = trace.accesses.of_span(row)
        names = [trace.strings[int(trace.tensors.name[i])] for i in each.tensor]
        columns = (each.offset, each.size, each.buffer, each.address, each.layer)
        actual = zip(names, *(column.tolist() for column in columns), strict=True)
        items.append((trace.span_name(row), *actual))
    return items


@pytest.mark.parametrize("seed", range(6))
def test_alike_builds_are_read_as_if_each_were_whole(seed: int, tmp_path: Path) -> None:
    builds = [
        build(0), build(1, n_tokens=37, seed=seed), build(2, n_tokens=2, names="u"),
        build(3, n_tokens=512, seed=seed),
    ]  # fmt: skip

    items = list(build_facts(builds, has_names=True))
    from_whole = opened(tmp_path, [*map(whole, builds)], 1)
    from_alike = opened(tmp_path, items, 2)

    assert [facts.get("like") for facts in items] == [None, 0, None, 0]
    assert reads(from_alike) == reads(from_whole)
    sizes = [trace.tensors.size.tolist() for trace in (from_alike, from_whole)]
    assert sizes[0] == sizes[1]


def test_build_that_comes_again_shows_nothing_anew() -> None:
    first, again = build_facts([build(0), build(1)], has_names=True)

    assert again == {"build": 1, "like": 0, "changes": {}}
    assert "names" in first


def test_another_length_takes_a_small_part_of_a_build() -> None:
    first, *others = build_facts(
        [build(n, n_tokens=n + 1, seed=n) for n in range(100)], has_names=True
    )

    assert sum(len(text(each)) for each in others) / 99 < len(text(first)) / 6


@pytest.mark.parametrize(
    "changes",
    [
        None, 5, {"data": 5}, {"names": {}}, {"data": {"moved": 5}},
        {"data": {"moved": {"rows": 1, "columns": {"from": [1]}}}},
        {"data": {"moved": {"rows": 2, "columns": {"from": [1], "to": [1]}}}},
        {"data": {"single": {"rows": 1, "columns": {"at": [10**6], "is": [1]}}}},
        {"data": {"single": {"rows": 1 << 50, "columns": {}}}},
    ],
    ids=repr,
)  # fmt: skip
def test_change_that_cannot_be_costs_its_build_only(
    changes: Any, tmp_path: Path
) -> None:
    (first,) = build_facts([build(0)], has_names=True)
    builds = [first, *({"build": n, "like": 0, "changes": changes} for n in (1, 2, 3))]
    path = tmp_path / "run.bin"
    facts = recordings.packed(recordings.sidecar(builds=[])) | {"builds": builds}
    path.write_bytes(recordings.records())
    path.with_suffix(".json").write_text(json.dumps(facts))

    trace = open_bundle(survey((path,)))

    assert trace.check() == []
    (problem,) = [w for w in trace.warnings if w.code == "sidecar_values"]
    assert problem.count == 3
