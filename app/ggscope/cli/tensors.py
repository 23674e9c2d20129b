"""``ggscope tensors``: what a model holds, and what a trace does with it."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.analysis.filters.text import text_matcher
from ggscope.analysis.model_importance import TensorImportance, tensor_importance
from ggscope.analysis.model_tensors import ModelTensors, model_tensors
from ggscope.analysis.model_tree import (
    TensorReads,
    TensorSums,
    TensorTree,
    element_counts,
    tensor_reads,
    tensor_tree,
)
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.counting import known_bytes, moved_text
from ggscope.descriptions.selected import tensor_name
from ggscope.descriptions.tensors import (
    access_text,
    bits_text,
    element_text,
    group_text,
    level_of,
    total_text,
)
from ggscope.errors import QueryError
from ggscope.model.ggml.types import type_name
from ggscope.model.names import COMPONENTS
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_offset,
    format_share,
)
from ggscope.sanitize import one_line

Record = dict[str, Any]


def run(arguments: Namespace) -> int:
    """List the tensors of each file; return the exit code."""
    matches = None if arguments.find is None else text_matcher(arguments.find)

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        if not len(trace.tensors):
            raise QueryError(
                f"{path.name} names no tensors. --gguf MODEL adds the model file."
            )
        if arguments.sort == "importance":
            if arguments.by != "tensor":
                raise QueryError("--sort importance needs --by tensor.")
            if trace.importance is None:
                raise QueryError(
                    f"{path.name} has no importance matrix. --with IMATRIX adds one."
                )
        listing, reads = model_tensors(trace), tensor_reads(trace)
        record = tensors_json(path, trace, listing, reads, arguments, matches)
        if not arguments.json:
            print_heading(path, arguments)
            _print(trace, listing, reads, record, arguments)
        return GOOD, record

    return answer_each(arguments, work)


def tensors_json(
    path: Path,
    trace: Trace,
    listing: ModelTensors,
    reads: TensorReads,
    arguments: Namespace,
    matches: Callable[[str], bool] | None = None,
) -> Record:
    """Return what ``tensors --json`` prints of a file."""
    chosen = np.arange(len(listing))
    if matches is not None:
        names = [tensor_name(trace, i) for i in listing.rows.tolist()]
        is_match = np.array([matches(name) for name in names], np.bool_)
        chosen = np.flatnonzero(is_match)
    tree = tensor_tree(trace, listing, arguments.by, reads, chosen)
    records = (
        _tensors(trace, listing, reads, chosen, tensor_importance(trace))
        if arguments.by == "tensor"
        else _groups(trace, listing, tree)
    )
    time = f"total_{trace.clock.unit}"
    _sort(records, time if arguments.sort == "time" else arguments.sort)
    record: Record = {
        "path": str(path),
        "by": arguments.by,
        "files": [
            {"name": name, "size": int(end), "data_offset": int(start)}
            for name, end, start in zip(
                listing.files,
                listing.ends.tolist(),
                listing.starts.tolist(),
                strict=True,
            )
        ],
        "total": _sums(trace, tree.total, 0),
        "matched": len(records),
        "rows": records[: arguments.limit],
    }
    if arguments.metadata:
        record["metadata"] = {m.name: dict(m.metadata) for m in trace.models}
    return record


def _sort(records: list[Record], by: str) -> None:
    """Sort by a key; what is not known comes last."""
    if by == "offset":
        return  # as they come
    if by == "name":
        records.sort(key=lambda record: str(record["name"]))
        return
    records.sort(key=lambda record: (record.get(by) is None, -(record.get(by) or 0)))


def _tensors(
    trace: Trace,
    listing: ModelTensors,
    reads: TensorReads,
    chosen: I64,
    importance: TensorImportance | None,
) -> list[Record]:
    tensors, elements = trace.tensors, element_counts(trace, listing.rows)
    records = []
    for at in chosen.tolist():
        row = int(listing.rows[at])
        shape = None if tensors.shape is None else tensors.shape[row]
        size, n, file = int(listing.size[at]), int(elements[at]), int(listing.file[at])
        kind = "" if tensors.type is None else type_name(int(tensors.type[row]))
        records.append(
            {
                "name": tensor_name(trace, row),
                "component": COMPONENTS[int(listing.component[at])],
                "layer": _known(int(tensors.layer[row])),
                "type": kind or None,
                "shape": None if shape is None else _shape(shape.tolist()),
                "elements": _known(n),
                "size": _known(size),
                "bits": size * 8 / n if size >= 0 and n > 0 else None,
                "offset": _known(int(listing.offset[at])),
                "file": listing.files[file] if 0 <= file < len(listing.files) else None,
                **_read(trace, reads, row),
                **_importance(importance, row),
            }
        )
    return records


def _importance(importance: TensorImportance | None, row: int) -> Record:
    """Return what an importance matrix has of a tensor; nothing without one."""
    if importance is None:
        return {}
    square, tokens = float(importance.mean_square[row]), float(importance.count[row])
    return {
        "importance": None if np.isnan(square) else square,
        "imatrix_tokens": None if np.isnan(tokens) else round(tokens),
        "unused_experts": _known(int(importance.n_unused[row])),
    }


def _groups(trace: Trace, listing: ModelTensors, tree: TensorTree) -> list[Record]:
    """Return the outermost groups."""
    tops = np.flatnonzero(tree.level == 0).tolist()
    level = level_of(tree.by, 0)
    return [
        {
            "key": None if tree.key[i] == -1 else tree.key[i],
            "name": group_text(listing, level, tree.key[i]),
            **_sums(trace, tree.sums, i),
        }
        for i in tops
    ]


def _sums(trace: Trace, sums: TensorSums, at: int) -> Record:
    bits = float(sums.bits[at])
    return {
        "tensors": int(sums.n[at]),
        "elements": int(sums.elements[at]),
        "unknown_elements": int(sums.n_unshaped[at]),
        "size": int(sums.size[at]),
        "unknown_sizes": int(sums.n_unsized[at]),
        "bits": bits if bits == bits else None,
        **_read(trace, sums, at),
    }


def _read(trace: Trace, sums: TensorReads | TensorSums, at: int) -> Record:
    """Return what a trace does with a tensor or group; None = not recorded."""
    is_open = bool(sums.is_open[at])

    def count(values: I64 | None) -> int | None:
        n = None if values is None else int(values[at])
        return None if is_open and not n else n

    unsized = 0 if sums.unsized is None else int(sums.unsized[at])
    n_bytes = count(sums.bytes)
    return {
        "accesses": count(sums.accesses),
        "accessed_bytes": None if n_bytes is None else known_bytes(n_bytes, unsized),
        "accesses_without_size": None if sums.accesses is None else unsized,
        f"total_{trace.clock.unit}": None
        if sums.ticks is None
        else _known(int(sums.ticks[at])),
        "may_be_more": is_open,
    }


def _shape(sizes: list[int]) -> list[int] | None:
    """Return the dimensions up to the last one in use; None = not known."""
    while len(sizes) > 1 and sizes[-1] in (0, 1):
        sizes.pop()
    return sizes if all(size > 0 for size in sizes) else None


def _known(n: int) -> int | None:
    return n if n >= 0 else None


def _print(
    trace: Trace,
    listing: ModelTensors,
    reads: TensorReads,
    record: Record,
    arguments: Namespace,
) -> None:
    whole = tensor_tree(trace, listing, "tensor", reads).total
    name = next((m.metadata["general.name"] for m in trace.models
                 if "general.name" in m.metadata), "")  # fmt: skip
    output.emit(one_line(" · ".join(filter(None, (name, total_text(whole))))))
    if arguments.metadata:
        for file, metadata in record["metadata"].items():
            output.emit("")
            output.emit(one_line(file))
            width = max(map(len, metadata), default=0)
            for key, value in metadata.items():
                output.emit(one_line(f"  {key:<{width}}  {value}"))
    if record["matched"]:
        output.emit("")
        output.emit(_table(trace, record, reads, int(whole.size[0])))
    else:
        output.emit("No tensor matches.")
    left = record["matched"] - len(record["rows"])
    if left > 0:
        output.emit(f"… and {format_count(left)} more; --limit N lists more")


def _table(trace: Trace, listing: Record, reads: TensorReads, whole: int) -> str:
    is_list, unit = listing["by"] == "tensor", trace.clock.unit
    head = ["tensor", "type", "shape"] if is_list else [listing["by"], "tensors"]
    head += ["elements", "bits", "size", "share"]
    head += ["offset"] if is_list else []
    head += ["accesses", "read"] if reads.accesses is not None else []
    head += ["time"] if reads.ticks is not None else []
    has_importance = is_list and trace.importance is not None
    head += ["importance", "tokens", "unused experts"] if has_importance else []
    rows = []
    for record in listing["rows"]:
        size, n = record["size"], record["elements"]
        if not is_list:
            size = None if record["unknown_sizes"] == record["tensors"] else size
            n = None if record["unknown_elements"] == record["tensors"] else n
        bits = float("nan") if record["bits"] is None else record["bits"]
        row = [record["name"]]
        if is_list:
            shape = " × ".join(map(str, record["shape"] or ()))
            row += [record["type"] or NOT_AVAILABLE, shape or NOT_AVAILABLE]
        else:
            row.append(format_count(record["tensors"]))
        row += [
            element_text(-1 if n is None else n),
            bits_text(bits),
            NOT_AVAILABLE if size is None else format_bytes(size),
            NOT_AVAILABLE if size is None or not whole else format_share(size / whole),
        ]
        if is_list:
            offset = record["offset"]
            row.append(format_offset(-1 if offset is None else offset))
        row += _read_texts(record, reads)
        if reads.ticks is not None:
            ticks = record[f"total_{unit}"]
            row.append(NOT_AVAILABLE if ticks is None else format_duration(ticks, unit))
        if has_importance:
            row += _importance_texts(record)
        rows.append(row)
    if trace.importance is not None and not trace.models:
        # A matrix alone has no types, shapes and sizes.
        columns = zip(head, *rows, strict=True)
        head, *rows = map(
            list,
            zip(*(c for c in columns if set(c[1:]) != {NOT_AVAILABLE}), strict=True),
        )
    return output.table(head, rows, left=(0, 1) if is_list else (0,))


def _importance_texts(record: Record) -> list[str]:
    square, tokens = record["importance"], record["imatrix_tokens"]
    unused = record["unused_experts"]
    return [
        NOT_AVAILABLE if square is None else f"{square:.4g}",
        NOT_AVAILABLE if tokens is None else format_count(tokens),
        NOT_AVAILABLE if unused is None else format_count(unused),
    ]


def _read_texts(record: Record, reads: TensorReads) -> list[str]:
    if reads.accesses is None:
        return []
    n, size = record["accesses"] or 0, record["accessed_bytes"]
    text = access_text(n, is_open=record["may_be_more"])[0]
    if size is None:
        return [text, NOT_AVAILABLE if n else text]
    return [text, moved_text(size, record["accesses_without_size"] or 0)]
