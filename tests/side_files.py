"""Read side files from text in tests, and say what came of it."""

import json
from pathlib import Path

from ggscope.errors import ReadError
from ggscope.model.graph import Graph
from ggscope.model.trace import Trace
from ggscope.readers.api import HEAD_BYTES, Head, ReadContext, Reader
from ggscope.readers.source import Source


def read_text(reader: Reader, folder: Path, text: str | bytes, name: str) -> Trace:
    """Return the checked trace of a file with this content."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_path(reader, path)


def read_path(reader: Reader, path: Path) -> Trace:
    with Source(path) as source:
        trace = reader.read(source, ReadContext())
    assert trace.check() == []
    assert trace.pending == frozenset()
    return trace


def outcome(reader: Reader, path: Path) -> Trace | ReadError:
    """Return a sound trace or the error; sniffing must not fail either."""
    data = path.read_bytes()
    reader.sniff(Head(path.name, len(data), data[:HEAD_BYTES]))
    outcome: Trace | ReadError
    try:
        outcome = read_path(reader, path)
    except ReadError as error:
        outcome = error
    if isinstance(outcome, ReadError):
        assert outcome.message
        assert "\n" not in outcome.message
    return outcome


def confidence(reader: Reader, data: str | bytes, name: str = "x.json") -> int:
    raw = data.encode() if isinstance(data, str) else data
    return reader.sniff(Head(name, len(raw), raw[:HEAD_BYTES])).confidence


def codes(trace: Trace) -> dict[str, int]:
    return {w.code: w.count for w in trace.warnings}


def names(trace: Trace, graph: Graph) -> list[str]:
    return [trace.strings[i] for i in graph.name.tolist()]


def dtypes(trace: Trace, graph: Graph) -> list[str]:
    return [trace.strings[i] for i in graph.dtype.tolist()]


def operations(trace: Trace, graph: Graph) -> list[str]:
    return [trace.strings[i] for i in graph.operation.tolist()]


def edges(graph: Graph) -> list[tuple[int, int, int]]:
    columns = (graph.source.tolist(), graph.target.tolist(), graph.slot.tolist())
    return list(zip(*columns, strict=True))


def node(node_id: str, label: str = "", **values: object) -> dict[str, object]:
    """Return a node of a graph JSON file."""
    known: dict[str, object] = {
        "id": node_id,
        "address": "0x10",
        "label": label or node_id,
        "operation": "X*Y",
        "shape": [2, 3],
        "dtype": "f32",
        "layer_id": None,
        "category": "other",
    }
    return known | values


def leaf(node_id: str, label: str = "", **values: object) -> dict[str, object]:
    return node(node_id, label, operation="CONST", **values)


def edge(source: str, target: str, slot: int = 0) -> dict[str, str]:
    return {"source": source, "target": target, "label": f"src {slot}"}


def graph_text(nodes: list[object], links: list[object], **root: object) -> str:
    """Return a graph JSON file."""
    metadata = {"total_nodes": len(nodes), "total_edges": len(links)}
    known = {"token_id": 0, "metadata": metadata, "nodes": nodes, "edges": links}
    return json.dumps(known | root)


def sound_graph_json() -> str:
    nodes: list[object] = [node(f"n{i}", f"blk.{i}.x") for i in range(40)]
    return graph_text(nodes, [edge(f"n{i}", f"n{i + 1}") for i in range(39)])


def sound_dot() -> str:
    lines = ["digraph G {", "  newrank = true;"]
    lines += [
        f'  "0x{i:x}" [ style = filled; fillcolor = white; shape = record; '
        f'label="t-{i} (f32)|{i} [2, 3] | <x>X*Y"; ]'
        for i in range(1, 40)
    ]
    lines += [
        f'  "0x{i:x}" -> "0x{i + 1:x}" [ arrowhead = vee; style = solid; '
        'label = "src 0"; ]'
        for i in range(1, 39)
    ]
    return "\n".join([*lines, "}", ""])


def sound_buffer_lines() -> str:
    return "".join(
        f'{{"timestamp_ms":{i}.250,"event":"alloc","buffer_id":{i},"buffer_ptr":0,'
        f'"size":{1 << i},"name":"KVCache_CPU","backend":"CPU","usage":2,'
        '"layer":65535}\n'
        for i in range(1, 30)
    )


def sound_timeline() -> str:
    events = [
        {"timestamp_ms": i, "event": "alloc", "buffer_id": i, "buffer_name": "KV",
         "size": 8, "cumulative_size": 8 * i}
        for i in range(1, 30)
    ]  # fmt: skip
    return json.dumps({"metadata": {}, "buffers": [], "timeline": events})


def sound_routing() -> str:
    rows = [f"{i % 24},{(7 * i) % 32}\n" for i in range(400)]
    return "layer,expert\n" + "".join(rows)
