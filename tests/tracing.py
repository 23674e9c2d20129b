"""Runs a program with the tracer in it, and takes what its ring states."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.cli import main
from ggscope_capture import ring, targets
from ggscope_capture.facts import to_sidecar
from ggscope_capture.native import build
from ggscope_capture.ring_contents import RingContents, joined
from ggscope_capture.ring_format import (
    RECORD_BEGIN,
    DefBuild,
    DefWeight,
    EventGraph,
    Frame,
    FrameType,
    TensorFlag,
    unpack,
)
from ggscope_capture.sidecar import table_keys

TRACER = build.FOLDER / build.NAME
CACHE = targets.cache()
"""Where `make llama` builds: asked for before tests get folders of their own."""


def built(kind: str, name: str = "llama-completion") -> Path:
    """Return a program that `make llama` built; skip where it did not.

    `kind` is "shared", "static", or "changed" (static, of changed sources).
    """
    path = CACHE / kind / ("" if kind == "changed" else "bin") / name
    if not path.is_file():
        pytest.skip(f"there is no {path}: `make llama` builds it")
    return path


def info(*files: Path) -> dict[str, Any]:
    """Return what ``ggscope info --json`` says; in this process, which is cheaper."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out:
        code = main(["info", "--json", *map(str, files)])
        out.seek(0)
        trace = out.read()
    assert code == 0, trace
    info: dict[str, Any] = json.loads(trace)
    return info


def tracer() -> Path:
    """Return the compiled tracer; skip where this platform has none."""
    if sys.platform != "linux":
        pytest.skip("the tracer was written for Linux only so far")
    newest = max(path.stat().st_mtime for path in build.FOLDER.glob("*.[ch]"))
    if not TRACER.exists() or TRACER.stat().st_mtime < newest:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler here")
        build.compile_tracer(TRACER)
    return TRACER


def tracer_environment(entry_point: str) -> dict[str, str]:
    """Return the environment that lets the tracer in."""
    path = str(tracer())
    given = {}
    if entry_point in ("path", "both"):
        given["GGML_BACKEND_PATH"] = path
    if entry_point in ("preload", "both"):
        given["LD_PRELOAD"] = path
    return given


def plain_sidecar(ring_contents: RingContents, control: Any) -> dict[str, Any]:
    """Return the facts of a sidecar with the rows of its tables as lists."""
    facts, keys = to_sidecar(ring_contents, control), table_keys()
    return {key: [*it] if key in keys else it for key, it in facts.items()}


def contents_of(read: ring.Ring) -> RingContents:
    """Return all that a ring holds."""
    records = joined(read.records())
    return RingContents.of(
        read.definitions(), read.events(), records, read.lanes.copy()
    )


@dataclass
class Traced:
    """What one run recorded, and what its driver says was to be recorded."""

    stdout: bytes
    facts: dict[str, list[list[list[int]]]]
    control: np.ndarray
    lanes: np.ndarray
    definitions: list[Frame]
    events: list[Frame]
    records: list[np.ndarray] = field(default_factory=list)

    def contents(self) -> RingContents:
        return RingContents.of(
            self.definitions, self.events, joined(self.records), self.lanes
        )

    def of(self, kind: FrameType) -> list[Frame]:
        return [e for e in (*self.definitions, *self.events) if e.type == kind]

    @property
    def ops(self) -> dict[int, str]:
        ops = {}
        for event in self.of(FrameType.OP):
            ops[event.number()] = event.text()
        return ops

    def builds(self) -> dict[int, tuple[DefBuild, list[tuple[np.void, str]]]]:
        """Return head and tensors with names, by the number of the build."""
        builds = {}
        for number, made in self.contents().builds.items():
            builds[number] = made.head, [*zip(made.tensors, made.names, strict=True)]
        return builds

    def graphs(self) -> dict[int, EventGraph]:
        report = [unpack(EventGraph, e.body) for e in self.of(FrameType.GRAPH_BEGIN)]
        return {graph.graph: graph for graph in report}

    def weights(self) -> dict[str, DefWeight]:
        weights = {}
        for event in self.of(FrameType.WEIGHT):
            weights[event.text()] = unpack(DefWeight, event.body)
        return weights


def command(
    target: targets.Target, model: Path, facts: Path, *extra: str, threads: int = 1
) -> list[str]:
    given = target.command(model, "once upon a time", tokens=6, threads=threads)
    return [*given, "--facts", str(facts), *extra]


def run(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> Traced:
    """Run to the end and take everything; the ring is removed.

    A small ring in the folder of the test: nothing of /dev/shm is needed.
    """
    path = folder / "ring"
    settings = {"GGSCOPE_RING": str(path), "GGSCOPE_RING_SIZE": str(8 << 20)}
    done = subprocess.run(
        arguments, env={**os.environ, **settings, **environment},
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    facts = folder / "facts.json"
    data = json.loads(facts.read_text()) if facts.exists() else {}
    with ring.Ring(path) as read:
        records = read.records()
        traced = Traced(
            done.stdout, data, read.control[0].copy(), read.lanes.copy(),
            read.definitions(), read.events(), records,
        )  # fmt: skip
        assert read.dropped() == 0
        assert int(read.lost.sum()) == 0
    for each in (path, ring.defs_path(path)):
        each.unlink()
    return traced


def check_records(traced: Traced, *, lanes: int, graphs: int) -> None:
    """Each computed node once per lane and graph, and nothing lies over anything."""
    builds, report = traced.builds(), traced.graphs()
    assert len(report) == graphs
    assert int(traced.control["no_node"]) == 0
    expected: Counter[tuple[int, int]] = Counter()
    for number, graph in report.items():
        _, tensors = builds[graph.build]
        for node in range(graph.n_nodes):
            if tensors[node][0]["flags"] & TensorFlag.COMPUTED:
                expected[number, node] += lanes
    counts: Counter[tuple[int, int]] = Counter()
    for part in traced.records:
        counts.update(zip(part["graph"].tolist(), part["node"].tolist(), strict=True))
        end = part["t0"] + part["op_ns"] + part["wait_ns"]
        assert np.all(part["t0"][1:] >= end[:-1])
        assert np.all(part["extra"] & RECORD_BEGIN == 0)
    assert counts == expected
    ops = traced.ops
    for part in traced.records:
        for row in part[:: max(1, len(part) // 50)]:
            head = report[int(row["graph"])]
            tensor, name = builds[head.build][1][int(row["node"])]
            assert tensor["op"] == row["op"]
            assert int(row["op"]) in ops
            assert name
