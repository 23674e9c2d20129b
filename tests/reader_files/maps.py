"""Files of memory-map, structure-csv, registry, tensor-names."""

from collections.abc import Sequence

from map_files import REGISTRY, STRUCTURE, document, row, table
from reader_files import Names, ReaderFiles


def _valid_map() -> bytes:
    rows = [row(f"blk.{i}.ffn_up.weight", 64 + 400 * i, 400) for i in range(40)]
    return document(*rows).encode()


def _hostile_map(names: Names) -> bytes:
    rows = [
        row(next(names) + str(i), 64 + 400 * i, 400, category=next(names),
            component=next(names), component_type=next(names), layer_id=i % 3)
        for i in range(20)
    ]  # fmt: skip
    return document(*rows, model_name=next(names)).encode()


def _valid_structure() -> bytes:
    rows = [f"blk.{i}.t,{64 + 400 * i},400,{i},FFN Up,1,100,0,0,0" for i in range(40)]
    return table(STRUCTURE, rows).encode()


def _hostile_structure(names: Names) -> bytes:
    rows = [
        (f"blk.{i}.{next(names)}", 64 + 400 * i, 400, i, next(names), 1, 100, 0, 0, 0)
        for i in range(20)
    ]
    return _csv(STRUCTURE, rows)


def _csv(head: str, rows: Sequence[Sequence[object]]) -> bytes:
    def cell(value: object) -> str:
        return str(value).translate({ord(mark): " " for mark in ',"\r\n'})

    lines = [head, *(",".join(map(cell, row)) for row in rows)]
    return "".join(line + "\n" for line in lines).encode()


def _valid_registry() -> bytes:
    rows = [f"{i},blk.{i}.t,0x{4096 * (i + 1):x},{64 * i},64,{i}" for i in range(40)]
    return table(REGISTRY, rows).encode()


def _hostile_registry(names: Names) -> bytes:
    rows = [
        (i, f"blk.{i}.{next(names)}", hex(4096 * (i + 1)), 64 * i, 64, i)
        for i in range(20)
    ]
    return _csv(REGISTRY, rows)


def _valid_names() -> bytes:
    names = [f"blk.{i}.{w}.weight" for i in range(20) for w in ("attn_q", "ffn_up")]
    lines = "".join(f"{i} 0x{4096 + i:x} {n}\n" for i, n in enumerate(names))
    return f"# of a run\n{lines}".encode()


FILES = (
    ReaderFiles(
        "memory-map",
        valid=("memory-map.json", _valid_map),
        hostile=(".json", _hostile_map),
        session="folder",
    ),
    ReaderFiles(
        "structure-csv",
        valid=("structure.csv", _valid_structure),
        hostile=(".csv", _hostile_structure),
        session="tokens",
    ),
    ReaderFiles(
        "registry",
        valid=("registry.csv", _valid_registry),
        hostile=(".csv", _hostile_registry),
        session="tokens",
    ),
    ReaderFiles(
        "tensor-names",
        valid=("tensor_names.txt", _valid_names),
    ),
)
