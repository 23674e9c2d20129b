"""One bad value costs itself: every position of a small file, with every odd value.

And wherever a file is cut, what is said of it points into it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gguf_files
import side_files
import token_files
from ggmlviz_files import packed, run
from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers import registry
from ggscope.readers.api import HEAD_BYTES, EstimatingReader, Head, ReadContext, Reader
from ggscope.readers.source import Source
from map_files import REGISTRY, STRUCTURE, document, row, table
from support import ROOT, rewrite
from tensor_files import encode, llama_trace

_MARK = "@here@"
_OF_JSON = (
    "null", "true", "[]", "{}", '""', '"x"', "-1", str(1 << 63), str(1 << 64), "1e308",
    "1e999", "-0.0", '"\\ud800"', '"\\u0000"', f'"{"y" * 5000}"', "[[]]",
    '{"a": {}}', "[" * 2000 + "]" * 2000, "9" * 5000, "NaN", "-Infinity",
)  # fmt: skip
_OF_TABLES = (
    b"", b"x", b"-1", b"%d" % (1 << 63), b"%d" % (1 << 64), b"1e308", b"nan", b"inf",
    b"-0.0", b"\xff", b"\0", b'"', b"y" * 5000, b"9" * 5000, "²".encode(),
)  # fmt: skip
_STRIDE = 5
_LOSS = 4
"""Things that may be lost with a value: an op with its accesses, a node's edges."""


def _npu() -> dict[str, object]:
    sample = ROOT / "resources" / "samples" / "npu-prefill-decode.json"
    root = json.loads(sample.read_text("utf-8"))
    kinds: dict[str, dict[str, object]] = {}
    for event in root["timeline_events"]:
        kinds.setdefault(event["type"], event)
    samples = root.get("bandwidth_samples", [])[:1]
    known = {key: root[key] for key in ("version", "config_snapshot") if key in root}
    known["config_snapshot"] = {"memory": {"dram_peak_bw_bytes_per_cycle": 16}}
    events = [*kinds.values()][:3]
    return known | {"timeline_events": events, "bandwidth_samples": samples}


def _timeline() -> dict[str, object]:
    event = {"timestamp_ms": 1.5, "event": "alloc", "buffer_id": 1, "size": 5,
             "buffer_name": "n", "usage": 1, "layer": 3, "backend": "C",
             "cumulative_size": 5}  # fmt: skip
    entry = {"id": 1, "name": "a", "size": 5, "backend": "C", "usage": 1, "layer": 2,
             "usage_name": "ANY", "alloc_time_ms": 1, "dealloc_time_ms": 2}  # fmt: skip
    return {
        "metadata": {"total_events": 2, "total_buffers": 2, "peak_occupancy_mb": 0.1,
                     "peak_occupancy_bytes": 5},
        "buffers": [entry, entry | {"id": 2}],
        "timeline": [event, event | {"event": "free", "timestamp_ms": 2.5}],
    }  # fmt: skip


def _graph() -> dict[str, object]:
    nodes: list[object] = [
        side_files.node("a", "blk.0.x", layer_id=0), side_files.leaf("w"),
    ]  # fmt: skip
    return json.loads(side_files.graph_text(nodes, [side_files.edge("w", "a")]))


def _map() -> dict[str, object]:
    rows = [row("blk.0.a", 64, 40, expert_id=1), row("blk.1.b[1]", 104, 40, layer_id=1)]
    return json.loads(document(*rows))


def _tokens(version: str) -> dict[str, object]:
    return token_files.document(llama_trace(1)[2:3] * 2, version)


JSON_FILES: dict[str, tuple[str, object]] = {
    "graph-json": ("g.json", _graph()),
    "buffer-timeline": ("b.json", _timeline()),
    "trace-json 256": ("token-00000.json", _tokens("256-byte")),
    "trace-json 1024": ("token-00000.json", _tokens("1024-byte v4")),
    "trace-json 128": ("token-00000.json", _tokens("128-byte")),
    "memory-map": ("memory-map.json", _map()),
    "npu-json": ("n.json", _npu()),
}
_EVENT = '{"timestamp_ms":1.5,"event":"alloc","buffer_id":7,"buffer_ptr":0,"size":32,'
_LINES = f'{_EVENT}"name":"a","backend":"CPU","usage":2,"layer":65535}}\n'
TEXT_FILES: dict[str, tuple[str, bytes]] = {
    "structure-csv": (
        "s.csv", table(STRUCTURE, ["a,64,40,0,FFN,1,10,0,0,0"] * 3).encode()
    ),
    "registry": ("r.csv", table(REGISTRY, ["0,a,0x1000,64,40,0"] * 3).encode()),
    "moe-csv": ("m.csv", b"layer,expert,token,score\n" + b"0,3,1,0.25\n" * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", JSON_FILES)
@pytest.mark.filterwarnings("error")
def test_bad_value_in_json_costs_no_more_than_its_element(tmp_path, name) -> None:
    file_name, root = JSON_FILES[name]
    reader = _reader(name)
    path = tmp_path / file_name
    sound = _n_things(_read(reader, path, json.dumps(root).encode()))

    for k, position in enumerate(_positions(root)):
        marked = json.dumps(_with(root, position, _MARK))
        # Every value meets every kind of position; all pairs would take minutes.
        for value in _OF_JSON[k % _STRIDE :: _STRIDE]:
            if name == "npu-json" and value in ("NaN", "-Infinity"):
                continue  # an error by that format's rules
            text = marked.replace(f'"{_MARK}"', value)
            try:
                trace = _read(reader, path, text.encode("ascii"))
            except ReadError:
                if len(position) < 2:
                    continue
                raise
            if len(position) > 1:
                assert _n_things(trace) >= sound - _LOSS, (position, value[:20])


@pytest.mark.parametrize("value", _OF_JSON)
@pytest.mark.filterwarnings("error")
def test_bad_value_in_a_line_costs_that_line(tmp_path, value) -> None:
    reader, path = _reader("buffer-stats"), tmp_path / "b.jsonl"
    event = json.loads(_LINES)

    for key in event:
        marked = json.dumps(event | {key: _MARK}) + "\n"
        text = _LINES + marked.replace(f'"{_MARK}"', value) + _LINES
        trace = _read(reader, path, text.encode("ascii"))
        assert _n_things(trace) >= 2, (key, value[:20])


@pytest.mark.parametrize("name", TEXT_FILES)
@pytest.mark.filterwarnings("error")
def test_bad_cell_of_a_table_costs_its_row(tmp_path, name) -> None:
    file_name, data = TEXT_FILES[name]
    reader, path = _reader(name), tmp_path / file_name
    header, first, second, third, _ = data.split(b"\n")
    cells = second.split(b",")

    for i in range(len(cells)):
        for value in _OF_TABLES:
            bad = b",".join([*cells[:i], value, *cells[i + 1 :]])
            text = b"\n".join([header, first, bad, third, b""])
            trace = _read(reader, path, text)
            n = trace.info.n_records
            assert n >= 2, (i, value[:20])


def _prefixed() -> dict[str, tuple[str, bytes]]:
    made = {
        f"{name} of {file_name}": (file_name, json.dumps(root).encode())
        for name, (file_name, root) in JSON_FILES.items()
        if name in ("graph-json", "buffer-timeline", "memory-map", "trace-json 128")
    }
    lines = [json.dumps({"type": "MEMORY_EVENT", "cycle": i}) for i in range(3)]
    events = f'{{"version": "1.0", "timeline_events": [{", ".join(lines)}]}}'
    return made | TEXT_FILES | {
        "npu-json": ("n.json", events.encode()),
        "npu-json lines": ("n.jsonl", "\n".join(lines).encode()),
        "buffer-stats": ("b.jsonl", (_LINES * 3).replace('"a"', '"ä"').encode()),
        "graph-dot": ("g.dot", side_files.sound_dot().encode()[:900]),
        "gguf": ("m.gguf", gguf_files.encode()[:1500]),
        "ggmlviz": ("t.ggmlviz", packed(run(1))),
        "tensor-access": ("t.bin", encode(llama_trace(1)[:2], "256")),
    }  # fmt: skip


@pytest.mark.parametrize("name", _prefixed())
def test_what_is_reported_of_a_cut_file_points_into_it(tmp_path, name) -> None:
    file_name, data = _prefixed()[name]
    reader, path = _reader(name), tmp_path / file_name

    step = 1 if data.isascii() and len(data) < 600 else 7
    for size in range(1, len(data), step):
        try:
            warnings = _read(reader, path, data[:size]).warnings
        except ReadError as error:
            warnings = (error,)
        beyond = [
            t.offset for t in warnings if t.offset is not None and t.offset > size
        ]
        assert not beyond, (size, warnings)


def _reader(name: str) -> Reader:
    expected = name.split(" ", maxsplit=1)[0]
    return next(r for r in registry.readers() if r.info.id == expected)


def _read(reader: Reader, path: Path, data: bytes) -> Trace:
    """Return the sound trace of a file; sniffing and estimating must not fail."""
    rewrite(path, data)
    head = Head(path.name, len(data), data[:HEAD_BYTES])
    reader.sniff(head)
    if isinstance(reader, EstimatingReader):
        reader.estimate(head)
    with Source(path) as source:
        trace = reader.read(source, ReadContext())
    assert trace.check() == []
    return trace


def _n_things(trace: Trace) -> int:
    n_nodes = sum(map(len, trace.graphs))
    n_buffers = 0 if trace.buffers is None else len(trace.buffers)
    return (
        len(trace.spans) + len(trace.markers) + len(trace.tensors) + n_nodes + n_buffers
    )


def _positions(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _positions(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _positions(inner, (*path, i))


def _with(root: object, path: tuple, value: object) -> object:
    """Return a copy of a JSON value with another value at one position."""
    if not path:
        return value
    here, *deeper = path
    if isinstance(root, dict):
        return root | {here: _with(root[here], tuple(deeper), value)}
    return [
        _with(inner, tuple(deeper), value) if i == here else inner
        for i, inner in enumerate(root)
    ]
