"""Ops of token traces: numbers, unknown ones, repair and the option to override."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ggscope.model.ggml.ops import TRACER_PRIVATE, tables
from ggscope.model.trace import Trace
from ggscope.readers.tensor.token_json.ops import printers
from tensor_files import Rec, Src
from token_files import (
    OPS,
    TWINS,
    corpus_trace,
    document,
    op_names,
    read_file,
    read_object,
)

CODES = {name: code for code, name in OPS.items()}
FIRST_EXPORTER = printers()[0]


def misprinted(path: Path) -> dict[str, object]:
    """Return a real trace as the first exporter printed it."""
    value = json.loads(path.read_text())
    for entry in value["entries"]:
        code = CODES[entry["operation_type"]]
        known = code < len(FIRST_EXPORTER.names)
        name = FIRST_EXPORTER.names[code] if known else f"UNKNOWN_{code}"
        entry["operation_type"] = name
    return value


def notices(trace: Trace) -> dict[str, str]:
    return {w.code: w.message for w in trace.warnings}


@pytest.mark.parametrize("commit", [c for c, twin in TWINS if "_128_" not in twin])
def test_misprinted_trace_is_repaired_with_a_notice(
    tmp_path: Path, commit: str
) -> None:
    path = corpus_trace(commit)

    trace = read_object(tmp_path, misprinted(path))

    assert op_names(trace) == op_names(read_file(path))
    assert trace.ops is not None
    assert (trace.ops.id, trace.ops.source) == ("ggml-2025-11-25-95", "inferred")
    text = notices(trace)["ops_repaired"]
    for part in ("parse-trace-2026-01-07", "ggml-2025-11-25-95", "100.0 %", "margin"):
        assert part in text


def test_misprinted_trace_is_left_alone_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    value = misprinted(corpus_trace("3584a339"))

    trace = read_object(tmp_path, value, ops="as-printed")

    expected = [
        re.sub(r"UNKNOWN_(\d+)", r"OP_\1?", e["operation_type"])
        for e in value["entries"]
    ]
    assert op_names(trace) == expected
    assert "ops_repaired" not in notices(trace)
    assert "unknown_op" in notices(trace)
    assert trace.info.options == {"ops": "as-printed"}


def test_named_table_is_the_writers_when_repairing(tmp_path: Path) -> None:
    path = corpus_trace("c26d86e7")

    trace = read_object(tmp_path, misprinted(path), ops="ggml-2025-11-25-95")

    assert op_names(trace) == op_names(read_file(path))
    assert trace.ops is not None
    assert trace.ops.source == "override"


def test_declared_names_get_numbers_of_the_newest_table(tmp_path: Path) -> None:
    records = [Rec(1000, "a", op=29, sources=(Src("x"),)), Rec(2000, "b", op=94)]

    trace = read_object(tmp_path, document(records))

    assert trace.ops is not None
    assert (trace.ops.id, trace.ops.source) == (tables()[0].id, "spelled")
    assert op_names(trace) == ["MUL_MAT", "GLU"]


def test_names_of_an_old_table_are_found_in_it(tmp_path: Path) -> None:
    value = document([Rec(1000, "a"), Rec(2000, "b")])
    for entry, name in zip(value["entries"], ("MAP_UNARY", "ADD"), strict=True):
        entry["operation_type"] = name

    trace = read_object(tmp_path, value)

    assert op_names(trace) == ["MAP_UNARY", "ADD"]
    assert trace.ops is not None
    assert trace.ops.id != tables()[0].id


def test_names_that_no_table_has_are_kept(tmp_path: Path) -> None:
    value = document([Rec(1000, "a"), Rec(2000, "b")])
    value["entries"][1]["operation_type"] = "MY_FUSED_OP"

    assert op_names(read_object(tmp_path, value)) == ["ADD", "MY_FUSED_OP"]


def test_unknown_number_is_shown_and_never_as_another_op(tmp_path: Path) -> None:
    value = document([Rec(1000 * k, "node_1") for k in range(1, 4)])
    for entry, name in zip(
        value["entries"], ("UNKNOWN_29", "MUL_MAT", "UNKNOWN_300"), strict=True
    ):
        entry["operation_type"] = name

    trace = read_object(tmp_path, value)

    assert op_names(trace) == ["OP_29?", "MUL_MAT", "OP_300?"]


def test_number_in_place_of_a_name_is_an_unknown_op(tmp_path: Path) -> None:
    value = document([Rec(1000, "node_1"), Rec(2000, "node_2")])
    value["entries"][1]["operation_type"] = 77

    trace = read_object(tmp_path, value)

    assert op_names(trace) == ["ADD", "OP_77?"]


def test_doubtful_names_are_shown_as_printed_and_noted(tmp_path: Path) -> None:
    value = document([Rec(1000, "l_out-0", sources=(Src("a"), Src("b")))])
    value["entries"][0]["operation_type"] = "NO_SUCH_OP"

    trace = read_object(tmp_path, value)

    assert op_names(trace) == ["NO_SUCH_OP"]
    assert "op_names_doubtful" in notices(trace)


def test_schema_of_128_bytes_keeps_its_own_numbers() -> None:
    trace = read_file(corpus_trace("71099aab"))

    assert trace.ops == replace(TRACER_PRIVATE, source="spelled")
    assert set(op_names(trace)) == {"MUL_MAT"}


def test_hundreds_of_unknown_names_do_not_fail(tmp_path: Path) -> None:
    value = document([Rec(1000 + k, f"node_{k}") for k in range(400)])
    for k, entry in enumerate(value["entries"]):
        entry["operation_type"] = f"OP_{k}"

    trace = read_object(tmp_path, value)

    assert len(op_names(trace)) == 400
    assert op_names(trace)[0] == "OP_0"
