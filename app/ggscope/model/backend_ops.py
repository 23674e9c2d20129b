"""What ggml itself lists of its ops: which backend ran them, or shall run them.

The scheduler (GGML_SCHED_DEBUG) lists graphs: splits with the tensors that are copied
to their backend, and nodes with their sources. Profilers of backends list ops with
times, one by one or added up.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, Column, Table, stacked


def _text(doc: str, label: str = "") -> Column:
    return Column(
        "int32", f"{doc}; of the texts of the listing", -1, of="texts", label=label
    )


@dataclass(frozen=True, slots=True, eq=False)
class ListedOps(Table):
    """Ops, or groups of alike ones, in the order of the file."""

    line: Annotated[I64, Column("int64", "line or record of it, from 0", high=1 << 62)]
    graph: Annotated[
        Array, Column("int32", "which list of the file, from 0", low=0, high=1 << 31)
    ]
    split: Annotated[Array, Column("int32", "its split", -1, of="splits")]
    node: Annotated[I64, Column("int64", "number in its graph", -1, high=1 << 62)]
    op: Annotated[Array, _text("operation")]
    name: Annotated[Array, _text("tensor that it computes")]
    backend: Annotated[Array, _text("backend")]
    shape: Annotated[Array, _text("shapes, as the file writes them")]
    dtype: Annotated[Array, _text("types, as the file writes them")]
    cause: Annotated[Array, _text("why it is there, in the scheduler's own code")]
    count: Annotated[
        I64, Column("int64", "how many ops it stands for", low=0, high=1 << 62)
    ]
    time: Annotated[
        I64, Column("int64", "ns, of all of them", -1, high=1 << 62, is_length=True)
    ]
    size: Annotated[I64, Column("int64", "least bytes of the result", -1, unit="bytes")]
    step: Annotated[
        I64,
        Column("int64", "the result has fewer bytes than `size` and this", -1),
    ]
    rate: Annotated[I64, Column("int64", "float operations per second, as stated", -1)]
    is_computed: Annotated[
        npt.NDArray[np.int8],
        Column("int8", "whether it is computed in this graph: 0 or 1", -1, high=2),
    ]
    span: Annotated[I64, Column("int64", "its span", -1, high=1 << 62)]


@dataclass(frozen=True, slots=True, eq=False)
class OpSources(Table):
    """Tensors that listed ops read, in the order of the ops and their sources."""

    op: Annotated[Array, Column("int32", "row of the op", of="listed ops")]
    name: Annotated[Array, _text("tensor")]
    backend: Annotated[Array, _text("where it lies")]
    size: Annotated[I64, Column("int64", "least bytes", -1, unit="bytes")]
    step: Annotated[I64, Column("int64", "as of ops", -1)]


@dataclass(frozen=True, slots=True, eq=False)
class Splits(Table):
    """Runs of nodes that the scheduler gives to one backend."""

    line: Annotated[I64, Column("int64", "line of it, from 0", high=1 << 62)]
    graph: Annotated[
        Array, Column("int32", "which list of the file, from 0", low=0, high=1 << 31)
    ]
    number: Annotated[I64, Column("int64", "number in its graph", high=1 << 62)]
    backend: Annotated[Array, _text("backend")]
    n_inputs: Annotated[
        I64, Column("int64", "inputs, as the file states them", high=1 << 62)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class SplitInputs(Table):
    """Tensors that are copied to the backend of a split before it runs."""

    split: Annotated[Array, Column("int32", "row of the split", of="splits")]
    name: Annotated[Array, _text("tensor")]
    size: Annotated[I64, Column("int64", "least bytes", -1, unit="bytes")]
    step: Annotated[I64, Column("int64", "as of ops", -1)]


@dataclass(frozen=True, slots=True, eq=False)
class BackendOps:
    """What a file lists of ops and backends.

    Attributes
    ----------
    texts : that columns refer to.
    n_graphs : lists of the file: graphs of the scheduler, blocks of a logger.
    cut_names : length from which on names are cut; 0 where none is.
    """

    texts: tuple[str, ...]
    ops: ListedOps
    sources: OpSources
    splits: Splits
    inputs: SplitInputs
    n_graphs: int
    cut_names: int = 0

    def __len__(self) -> int:
        return len(self.ops)

    def text(self, number: int) -> str:
        """Return a text by its number; "" for -1."""
        return self.texts[number] if number >= 0 else ""

    @property
    def has_splits(self) -> bool:
        """Whether the scheduler listed it, with splits or nodes of a graph."""
        return bool(len(self.splits) or (self.ops.node >= 0).any())


def timed_ops(
    *, line: I64, op: Array, name: Array, backend: Array, shape: Array, time: I64,
    span: I64,
) -> ListedOps:  # fmt: skip
    """Return ops of one graph with times, of which nothing else is known."""
    return replace(
        ListedOps.blank(len(line)),
        line=line,
        op=op,
        name=name,
        backend=backend,
        shape=shape,
        count=np.ones(len(line), np.int64),
        time=time,
        span=span,
    )


def joined_ops(a: BackendOps | None, b: BackendOps | None) -> BackendOps | None:
    """Return two listings as one, those of `b` behind those of `a`."""
    if a is None or b is None:
        return b if a is None else a
    numbers: dict[str, int] = {text: i for i, text in enumerate(a.texts)}
    table = np.array(
        [*(numbers.setdefault(text, len(numbers)) for text in b.texts), -1], np.int32
    )
    n_ops, n_splits = len(a.ops), len(a.splits)

    def moved(values: Array, by: int) -> Array:
        return np.where(values >= 0, values.astype(np.int64) + by, -1).astype(np.int32)

    ops = replace(
        b.ops,
        graph=moved(b.ops.graph, a.n_graphs),
        split=moved(b.ops.split, n_splits),
        span=np.full(len(b.ops), -1, np.int64),
        **{
            name: table[getattr(b.ops, name)]
            for name in ("op", "name", "backend", "shape", "dtype", "cause")
        },
    )
    sources = replace(
        b.sources,
        op=moved(b.sources.op, n_ops),
        name=table[b.sources.name],
        backend=table[b.sources.backend],
    )
    splits = replace(
        b.splits,
        graph=moved(b.splits.graph, a.n_graphs),
        backend=table[b.splits.backend],
    )
    inputs = replace(
        b.inputs, split=moved(b.inputs.split, n_splits), name=table[b.inputs.name]
    )
    return BackendOps(
        tuple(numbers),
        stacked(a.ops, ops),
        stacked(a.sources, sources),
        stacked(a.splits, splits),
        stacked(a.inputs, inputs),
        a.n_graphs + b.n_graphs,
        max(a.cut_names, b.cut_names),
    )
