"""Tokens of recordings: what each ubatch computes, for whom, and in which phase."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import parse_filter
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.table import stat_table
from ggscope.cli.info.facts import describe
from ggscope.live.program import ProgramSource
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from ggscope_capture.ring_format import FrameType
from recordings import N_THREADS, NODES, recording, requests, sidecar, ubatch_event
from ring_writer import Writer

COLUMNS = ("ubatch", "row", "id", "position", "phase", "is_output", "context", "decode")
EACH = len(NODES) * N_THREADS


def opened(path: Path) -> Trace:
    trace = open_bundle(survey((path,)))
    assert trace.check() == []
    return trace


@pytest.fixture
def served(tmp_path: Path) -> Trace:
    return opened(recording(tmp_path, **requests()))


def spans(trace: Trace, kind: LaneKind) -> list[tuple[str, str, int]]:
    """Return lane, name and phase of the spans of lanes of a kind."""
    rows = np.flatnonzero(trace.lanes.of_kind(kind)[trace.spans.lane])
    return [
        (
            trace.lanes[int(trace.spans.lane[row])].name,
            trace.span_name(row),
            int(trace.spans.phase[row]),
        )
        for row in rows.tolist()
    ]


def test_tokens_are_counted_and_not_ubatches(served: Trace) -> None:
    counts: Any = describe(served, Path("x"))["counts"]

    assert (counts["tokens"], counts["passes"], counts["decodes"]) == (11, 4, 4)
    assert (counts["prompt_tokens"], counts["generated_tokens"]) == (5, 6)
    assert counts["sequences"] == 2


def test_each_token_is_a_row(served: Trace) -> None:
    tokens = served.batch_tokens

    assert tokens.ubatch.tolist() == [0] * 3 + [1] * 3 + [2] * 2 + [3] * 3
    assert tokens.row.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 2]
    assert tokens.id.tolist() == [10, 11, 12, 13, 20, 12, 14, 22, 15, 16, 17]
    assert tokens.position.tolist() == [0, 1, 2, 3, 0, 1, 4, 2, 5, 6, 7]
    assert tokens.phase.tolist() == [0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1]
    assert tokens.is_output.tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1]
    assert (
        served.token_sequences.sequence.tolist() == [0] * 4 + [1] * 2 + [0, 1] + [0] * 3
    )


def test_a_ubatch_of_both_is_mixed(served: Trace) -> None:
    report = spans(served, LaneKind.TOKEN)
    rows = {row.key: row.count for row in stat_table(served, "phase").rows}
    mixed = filter_mask(served, parse_filter("phase=mixed"))
    is_op = served.spans.op >= 0

    assert [phase for _, _, phase in report] == [0, 2, 1, 1]
    assert report[1][1] == "ubatch 1 · 3 tokens at 3, 0, 1: 13, 20, 12"
    assert rows == {"prompt": EACH, "mixed": EACH, "generate": 2 * EACH}
    assert mixed is not None
    assert set(served.spans.token[mixed & is_op].tolist()) == {1}


def test_each_sequence_has_a_lane(served: Trace) -> None:
    assert sorted(spans(served, LaneKind.SEQUENCE)) == [
        ("sequence 0", "3 tokens at 0–2: 10, 11, 12", 0),
        ("sequence 0", "3 tokens at 5–7: 15, 16, 17", 1),
        ("sequence 0", "token 13 at 3", 1),
        ("sequence 0", "token 14 at 4", 1),
        ("sequence 1", "2 tokens at 0, 1: 20, 12", 0),
        ("sequence 1", "token 22 at 2", 1),
    ]


def test_one_sequence_needs_no_lane(tmp_path: Path) -> None:
    report = requests()
    for ubatch in report["ubatches"]:
        ubatch["sequences"] = [0] * len(ubatch["tokens"])

    assert spans(opened(recording(tmp_path, **report)), LaneKind.SEQUENCE) == []


def test_bands_count_the_tokens_of_their_phase(served: Trace) -> None:
    bands = TraceIndex(served).phase_bands()

    assert [bands.text(i) for i in range(len(bands))] == [
        "prompt, 3 tokens",
        "mixed, 2 prompt + 1 generated tokens",
        "generate, 5 tokens",
    ]


def test_live_shows_the_same_tokens(served: Trace, tmp_path: Path) -> None:
    path = tmp_path / "ring"
    writer = Writer(path)
    source = ProgramSource(path, keeps_records=False, look_ns=0)
    for ubatch in requests()["ubatches"]:
        # It may be recorded twice.
        for _ in range(1 + (ubatch["ubatch"] == 1)):
            writer.event(FrameType.UBATCH, ubatch_event(ubatch), 0)
        writer.n_graphs = 2 * ubatch["ubatch"]  # two graphs of a ubatch
        for _ in range(2):
            writer.graph()
        source.poll()
    writer.end()
    for _ in range(2):
        source.poll()
    live = source.snapshot()
    source.close()
    writer.close()

    assert source.status().tokens == 11
    assert live.info.n_passes == served.info.n_passes == 4
    for name in COLUMNS:
        mine, theirs = (getattr(t.batch_tokens, name) for t in (live, served))
        assert mine.tolist() == theirs.tolist(), name
    assert spans(live, LaneKind.SEQUENCE) == spans(served, LaneKind.SEQUENCE)
    assert [name for _, name, _ in spans(live, LaneKind.TOKEN)] == [
        name for _, name, _ in spans(served, LaneKind.TOKEN)
    ]


@pytest.mark.parametrize(
    ("positions", "phase"),
    [([0, 1, 2], 0), ([27, 27, 28], -1), ([27, 27, 40], 1), ([5, 6, 7], -1)],
)
def test_older_tracers_called_each_ubatch_of_several_tokens_a_prompt(
    positions: list[int], phase: int, tmp_path: Path
) -> None:
    facts = sidecar()
    facts["ubatches"][0] |= {"tokens": [1, 2, 3], "positions": positions, "phase": 1}

    trace = opened(recording(tmp_path, **facts))

    assert trace.batch_tokens.phase[:3].tolist() == [phase] * 3
    assert spans(trace, LaneKind.TOKEN)[0][2] == phase
    assert trace.batch_tokens.decode.tolist() == [-1] * 6
    counts: Any = describe(trace, Path("x"))["counts"]
    assert (counts["tokens"], counts["decodes"], counts["sequences"]) == (6, None, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("phases", [1, 1]),
        ("phases", [1, 1, 9]),
        ("outputs", [3]),
        ("outputs", "x"),
        ("sequences", [0, -1, 0]),
        ("sequences", [0]),
        ("sequence_counts", [1, 1]),
        ("tokens", [1, None, 3]),
        ("positions", 7),
    ],
)
def test_tokens_that_cannot_be_are_left_out_and_counted(
    key: str, value: object, tmp_path: Path
) -> None:
    report = requests()
    report["ubatches"][0][key] = value
    path = recording(tmp_path, **report)
    json.loads(path.with_suffix(".json").read_text())

    trace = opened(path)

    assert set(trace.batch_tokens.ubatch.tolist()) == {1, 2, 3}
    (problem,) = (w for w in trace.warnings if w.code == "sidecar_values")
    assert (problem.count, problem.place) == (1, "run.json: ubatches")


@pytest.mark.parametrize("key", ["tokens", "positions"])
def test_numbers_below_zero_are_not_known(key: str, tmp_path: Path) -> None:
    report = requests()
    numbers = report["ubatches"][0][key]
    report["ubatches"][0][key] = [numbers[0], -264, numbers[2]]

    trace = opened(recording(tmp_path, **report))

    rows = trace.batch_tokens
    column = rows.id if key == "tokens" else rows.position
    assert column[rows.ubatch == 0].tolist() == [numbers[0], -1, numbers[2]]
    assert trace.check() == []
    assert [w.count for w in trace.warnings if w.code == "sidecar_values"] == [1]
