"""Damaged graphs, buffer events and routing tables: a checked trace or a ReadError."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.readers.api import Reader
from ggscope.readers.buffers.events_jsonl import BufferStatsReader
from ggscope.readers.buffers.timeline_json import BufferTimelineReader
from ggscope.readers.experts.moe_csv import MoeCsvReader
from ggscope.readers.graph.dot import GraphDotReader
from ggscope.readers.graph.json import GraphJsonReader
from side_files import edge, graph_text, leaf, node, outcome
from support import rewrite

_DOT = """digraph G {
  "0xa" [ style = filled; fillcolor = white; shape = record; label="a (f32)|0 [1, 2] | <x>X*Y"; ]
  "0xb" [ style = filled; fillcolor = pink; shape = record; label="<x>w (q4_K)|CONST 0 [2, 1]"; ]
  "0xb" -> "0xa" [ arrowhead = vee; style = solid; label = "src 0"; ]
  "0xa":x -> "0xa":g [ arrowhead = vee; style = solid; label = "src 1"; ]
  subgraph c { x -> {y z} [label=<<i>q</i>>] /* k */ }
}
"""  # noqa: E501
_GRAPH = graph_text(
    [node("a", "q", operation="view(x)", dtype="view"), leaf("w", "q"),
     node("c", "<x>blk.0.w (q4_K)|CONST 0 [2, 3]", operation="unknown", shape=[])],
    [edge("w", "a"), edge("a", "c", 2), edge("c", "c")],
)  # fmt: skip
_STATS = (
    '{"timestamp_ms":1.5,"event":"alloc","buffer_id":108933962620528,"buffer_ptr":0,'
    '"size":32,"name":"a "b"","backend":"CPU","usage":2,"layer":65535}\n'
    '{"timestamp_ms":2.25,"event":"dealloc","buffer_id":108933962620528}\nhello\n'
)
_TIMELINE = json.dumps({
    "metadata": {"total_events": 2, "peak_occupancy_bytes": 5,
                 "peak_occupancy_mb": 0.1},
    "buffers": [{"id": 1, "name": "a", "size": 5, "backend": "C", "usage": 1,
                 "layer": 2, "alloc_time_ms": 1.5, "dealloc_time_ms": 2.5}],
    "timeline": [{"timestamp_ms": 1.5, "event": "alloc", "buffer_id": 1, "size": 5,
                  "cumulative_size": 5}],
})  # fmt: skip
_MOE = "layer,expert,token,score\n0,3,1,0.25\n1,31,2,1e-3\nx\n23,0,2,nan\n"

CASES: dict[str, tuple[Reader, str]] = {
    "g.json": (GraphJsonReader(), _GRAPH),
    "g.dot": (GraphDotReader(), _DOT),
    "b.jsonl": (BufferStatsReader(), _STATS),
    "b.json": (BufferTimelineReader(), _TIMELINE),
    "moe.csv": (MoeCsvReader(), _MOE),
}
TOKENS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"null", b"-1", b"1e999",
    b"99999999999999999999", b"NaN", b"true", b"\xff", b"\0", b"\xc3", b"->", b"<",
    b"/*", b"nodes", b"0", b" ",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_single_byte_may_be_wrong(tmp_path: Path, name: str) -> None:
    reader, text = CASES[name]
    data, path = text.encode(), tmp_path / name

    for i in range(0, len(data), 3):
        for token in (b'"', b"}", b"\xff", b"9" * 30, b""):
            rewrite(path, data[:i] + token + data[i + 1 :])
            outcome(reader, path)


@pytest.mark.parametrize("name", CASES)
def test_file_may_end_anywhere(tmp_path: Path, name: str) -> None:
    reader, text = CASES[name]
    data, path = text.encode(), tmp_path / name

    for cut in range(1, len(data)):
        rewrite(path, data[:cut])
        result = outcome(reader, path)
        # Nothing shows that whole lines are missing.
        is_whole = data[:cut].endswith(b"\n") or not data[cut:].strip(b"}\n")
        assert isinstance(result, Exception) or result.warnings or is_whole


@pytest.mark.parametrize("name", CASES)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    changes=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 40),
            st.sampled_from(TOKENS) | st.binary(max_size=4),
        ),
        max_size=6,
    )
)
def test_mutated_file_is_read_or_refused(tmp_path: Path, name: str, changes) -> None:
    reader, text = CASES[name]
    data, path = text.encode(), tmp_path / name
    for share, length, put in changes:
        at = int(share * len(data))
        data = data[:at] + put + data[at + length :]

    rewrite(path, data or b" ")

    outcome(reader, path)
