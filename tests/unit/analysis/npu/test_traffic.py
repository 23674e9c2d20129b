"""Bytes per token and role against the events of a file, one by one."""

import json
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import npu_files
from ggscope.analysis.npu.facts import npu_facts
from ggscope.analysis.npu.traffic import PARTS, ROLES, token_traffic, traffic_spans
from ggscope.descriptions.npu import traffic_lines, traffic_table
from ggscope.exporters.npu_json import npu_json
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from ggscope.render.npu.figure import why_nothing
from ggscope.render.npu.scene import NpuScene
from ggscope.render.npu.traffic import traffic_at
from ggscope.render.theme import theme
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "npu-prefill-decode.json"
_ROLE_WORDS = {
    "weights": "weight", "kv_cache": "kv", "activations": "activation",
}  # fmt: skip


def events(seed: int, *, has_tokens: bool = True) -> list[dict[str, object]]:
    rng = random.Random(seed)
    made: list[dict[str, object]] = []
    if has_tokens:
        made += [
            npu_files.token(100 * i, 100 * i + 90, token_index=i, phase="DECODE")
            for i in range(6)
        ]
    for _ in range(120):
        start = rng.randrange(700)
        details: dict[str, object] = {}
        role = rng.choice([None, "weight", "weights", "kv", "kv_cache", "activation",
                           "activations", "bias é", "", 5, None])  # fmt: skip
        if role is not None:
            details["tensor_role"] = role
        if rng.random() < 0.8:
            details["bytes"] = rng.randrange(10**9)
        made.append(npu_files.engine(start, start + 5, details=details))
    return made


def opened(tmp_path, made: list[dict[str, object]]) -> Trace:
    path = tmp_path / "npu.json"
    path.write_text(json.dumps({"version": "1.0", "timeline_events": made}))
    return open_trace(path)


def plain_sums(made: list[dict[str, object]]) -> tuple[Counter, Counter]:
    """Return bytes by (token, part) and spans without bytes by token; -1 = none."""
    bands = [(e["start_cycle"], e["end_cycle"], e["token_index"]) for e in made
             if e["type"] == "TOKEN_EVENT"]  # fmt: skip
    moved: Counter = Counter()
    unsized: Counter = Counter()
    for event in made:
        if event["type"] != "ENGINE_EVENT":
            continue
        role = event["details"].get("tensor_role")
        part = "not stated"
        if isinstance(role, str):
            role = _ROLE_WORDS.get(role, role)
            part = role if role in ROLES[:3] else "other"
        here = [i for a, b, i in bands if a <= event["start_cycle"] < b]
        token = here[0] if here else -1
        size = event["details"].get("bytes")
        if size is not None:
            moved[token, part] += size
        elif part != "not stated":
            unsized[token] += 1
    return moved, unsized


@pytest.mark.parametrize("seed", range(6))
def test_bytes_are_those_of_the_events(tmp_path, seed):
    made = events(seed)
    moved, unsized = plain_sums(made)

    traffic = token_traffic(opened(tmp_path, made))

    assert traffic.has_roles
    assert traffic.has_tokens
    for i, token in enumerate([*traffic.tokens.tolist(), -1]):
        column = traffic.outside if token < 0 else traffic.moved[:, i]
        assert column.tolist() == [
            moved[token % 6 if token >= 0 else -1, part] for part in PARTS
        ]
        assert traffic.unsized[i] == unsized[token % 6 if token >= 0 else -1]
    total = sum(moved.values())
    assert traffic.totals.sum() + traffic.outside.sum() == total


def test_bars_select_the_spans_that_move_something(tmp_path):
    trace = opened(tmp_path, events(3))
    traffic = token_traffic(trace)

    for i, token in enumerate(traffic.tokens.tolist()):
        spans = traffic_spans(trace, token)
        moved = trace.spans.moved[spans]
        assert moved[moved >= 0].sum() == traffic.totals[i]


def test_sums_of_the_sample_are_those_of_its_summary():
    trace = open_trace(SAMPLE)
    stated = json.loads(SAMPLE.read_text())["summary_metrics"]["kv_cache"]

    traffic = token_traffic(trace)

    kv = traffic.moved[PARTS.index("kv")].sum() + traffic.outside[PARTS.index("kv")]
    assert kv == stated["bytes_read"] + stated["bytes_written"]
    assert len(traffic) == 9
    value = npu_json(trace, npu_facts(trace))["traffic"]
    assert sum(row["kv"] for row in value) == kv
    assert all(row["token"] for row in value)


def test_without_tokens_it_is_unknown_what_each_moves(tmp_path):
    trace = opened(tmp_path, events(1, has_tokens=False))
    facts = npu_facts(trace)

    value = npu_json(trace, facts)["traffic"]

    assert not facts.traffic.has_tokens
    assert [row["token"] for row in value] == [None]
    assert value[0]["moved"] > 0
    assert "unknown" in why_nothing(scene_of(trace))
    assert "tokens" in npu_json(trace, facts)["not_recorded"]
    (row,) = traffic_table(facts).rows
    assert row[0] is None


def test_without_roles_there_is_no_traffic(tmp_path):
    trace = opened(tmp_path, [npu_files.engine(0, 5), npu_files.token(0, 9)])

    assert npu_json(trace, npu_facts(trace))["traffic"] == []
    assert "tensor_role" in why_nothing(scene_of(trace))


def scene_of(trace: Trace, width: float = 600) -> NpuScene:
    return NpuScene(
        trace, npu_facts(trace), trace.extent, width, 300, theme("dark"), "traffic"
    )


def test_every_bar_can_be_pointed_at(tmp_path):
    trace = opened(tmp_path, events(5))
    scene = scene_of(trace)

    hits = {traffic_at(scene, x, 150.0) for x in np.arange(0, 600, 0.5).tolist()}

    n = len(scene.facts.traffic)
    assert hits - {-1} == set(range(n))
    assert traffic_at(scene, 0, 0) == -1
    for i in range(n):
        assert (
            traffic_lines(scene.facts, i)[0] == f"token {scene.facts.traffic.names[i]}"
        )


def test_of_many_tokens_the_one_that_moves_most_stands_for_a_pixel(tmp_path):
    made: list[dict[str, object]] = []
    sizes = [7 * i % 1000 + 1 for i in range(2000)]
    for i, size in enumerate(sizes):
        made.append(npu_files.token(10 * i, 10 * i + 9, token_index=i))
        details = {"tensor_role": "kv", "bytes": size}
        made.append(npu_files.engine(10 * i, 10 * i + 5, details=details))
    scene = scene_of(opened(tmp_path, made), 300)

    hits = [traffic_at(scene, x, 150.0) for x in np.arange(0, 300, 0.25).tolist()]

    shown = sorted(set(hits) - {-1})
    assert 150 < len(shown) < 300
    for a, b in pairwise(shown):
        between = sizes[a + 1 : b]
        assert not between or max(between) <= max(sizes[a], sizes[b])
