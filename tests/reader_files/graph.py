"""Files of graph-json, graph-dot."""

import side_files
from reader_files import Names, ReaderFiles, Seed


def _hostile_graph_json(names: Names) -> bytes:
    nodes: list[object] = [
        side_files.node(f"n{i}", f"{next(names)}-{i % 3}", operation=next(names),
                        dtype=next(names), category=next(names))
        for i in range(20)
    ]  # fmt: skip
    links = [side_files.edge(f"n{i}", f"n{i + 1}") for i in range(19)]
    return side_files.graph_text(nodes, links, title=next(names)).encode()


def _seeds_dot() -> list[Seed]:
    small = (
        'strict digraph "G" { rankdir=LR; node [shape=box]\n'
        '  "0xa" [ style = filled; label="a (f32)|0 [1, 2] | <x>X*Y"; ]\n'
        '  "0xb" [label="<x>w (q4_K)|CONST 0 [2, 1]"] // a remark\n'
        '  "0xb" -> "0xa" [label = "src 0"]; "0xa":x -> "0xa":g\n'
        "  subgraph c { x -> {y z} [label=<<i>q</i>>] /* k */ }\n}\n"
    )
    return [("g.dot", side_files.sound_dot().encode()), ("g.dot", small.encode())]


def _hostile_graph_dot(names: Names) -> bytes:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")

    text = side_files.sound_dot()
    for i in range(1, 40):
        text = text.replace(
            f"t-{i} (f32)|{i} [2, 3] | <x>X*Y",
            f"{quoted(next(names))}-{i} (f32)|{i} [2, 3] | <x>{quoted(next(names))}",
        )
    return text.encode()


FILES = (
    ReaderFiles(
        "graph-json",
        valid=("g.json", lambda: side_files.sound_graph_json().encode()),
        hostile=(".json", _hostile_graph_json),
        session="folder",
    ),
    ReaderFiles(
        "graph-dot",
        valid=("g.dot", lambda: side_files.sound_dot().encode()),
        seeds=_seeds_dot,
        hostile=(".dot", _hostile_graph_dot),
        session="ggmlviz",
    ),
)
