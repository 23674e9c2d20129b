"""The schema of columns: declared once, and enough for all who use columns."""

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pytest

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    Array,
    Column,
    Spans,
    Table,
    broken_columns,
    schema_of,
    stacked,
)
from ggscope.model.trace import LaneKind, TraceInfo
from support import ROOT


@dataclass(frozen=True, slots=True, eq=False)
class Things(Table):
    """A table of the tests."""

    name: Annotated[Array, Column("int32", "what", -1, of="strings")]
    size: Annotated[Array, Column("int64", "how large", -1, unit="bytes")]
    shade: Annotated[Array | None, Column("uint8", "how dark", 7)] = None
    title: str = ""


def things(n: int, **columns: Array) -> Things:
    return replace(Things.blank(n), **columns)


def test_document_is_what_the_schema_makes() -> None:
    done = subprocess.run(
        [sys.executable, "packaging/make_trace_model.py", "--check"],
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, "run packaging/make_trace_model.py"


def test_blank_rows_hold_none_and_lack_what_may_be_missing() -> None:
    table = Things.blank(2)

    assert len(table) == 2
    assert (table.name.tolist(), table.name.dtype) == ([-1, -1], np.int32)
    assert (table.shade, table.title) == (None, "")
    full = table.full()
    assert full.shade is not None
    assert full.shade.tolist() == [7, 7]
    assert not Things.blank().name.flags.writeable


def test_stacked_tables_fill_what_one_of_them_lacks() -> None:
    dark = things(1, shade=np.array([3], np.uint8))

    both = stacked(replace(things(2), title="first"), dark)

    assert both.shade is not None
    assert (both.shade.tolist(), both.shade.dtype) == ([7, 7, 3], np.uint8)
    assert both.title == "first"
    assert stacked(things(1), things(1)).shade is None
    assert both.take(np.array([2])).shade.tolist() == [3]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": np.array([0, 5], np.int32)}, "values 0..5 outside [-1, 5)"),
        ({"name": np.zeros(3, np.int32)}, "things.name has shape (3,), expected (2,)"),
        ({"size": np.zeros(2)}, "things.size has dtype float64, expected integers"),
        ({"size": np.zeros(2, np.int64)}, "things.size is writable"),
    ],
)
def test_broken_column_is_reported_in_a_sentence(
    columns: dict[str, Array], message: str
) -> None:
    result = broken_columns("things", things(2, **columns), {"": 2}, {"strings": 5})

    assert any(message in sentence for sentence in result)


def test_builder_takes_every_column_of_spans_and_no_other() -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    rest = {name: 0 for name in schema_of(Spans) if name not in ("start", "end")}

    builder.add_spans(
        start=np.array([0]), end=np.array([1]), **(rest | {"lane": lane, "name": -1})
    )
    spans = builder.snapshot(TraceInfo((), "test", "test", "1", 0)).spans

    for name, column in schema_of(Spans).items():
        assert getattr(spans, name).dtype == column.dtype, name
    with pytest.raises(TypeError, match="colour"):
        builder.add_spans(start=np.array([0]), end=np.array([1]), lane=0, colour=1)


def test_empty_tables_are_one() -> None:
    empty = Spans.blank()

    assert Spans.blank() is empty
    assert len(empty) == 0
    assert not empty.start.flags.writeable
    assert broken_columns("spans", empty, {"": 0}, {}) == []
    assert Spans.blank(2) is not Spans.blank(2)
