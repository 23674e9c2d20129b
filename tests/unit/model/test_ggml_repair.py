"""Op names that were printed with an outdated table are put right."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from ggscope.model.ggml.ops import table
from ggscope.model.trace import OpTable
from ggscope.readers.tensor.token_json.ops import (
    PrintedSample,
    agreement,
    needs_repair,
    printers,
    repair,
)
from support import need_corpus
from token_files import corpus_trace

WRITER = table("ggml-2025-11-25-95")
"""Table of the program that all real traces come from."""

WITH_SOURCES = ("3584a339", "c26d86e7", "a6ba6071", "962e44d2")


@cache
def samples_of(commit: str) -> list[PrintedSample]:
    """Return what a real trace says of its ops."""
    entries = json.loads(corpus_trace(commit).read_text())["entries"]
    counts = Counter(
        (e["operation_type"], e["dst_name"], tuple(s["name"] for s in e["sources"]))
        for e in entries
    )
    return [
        PrintedSample(op, name, sources, len(sources), n)
        for (op, name, sources), n in counts.items()
    ]


def misprinted(samples: list[PrintedSample], printer: OpTable) -> list[PrintedSample]:
    """Return the samples as a program with another table prints them."""
    return [replace(s, printed=printed(s.printed, printer)) for s in samples]


def printed(name: str, printer: OpTable) -> str:
    code = WRITER.names.index(name)
    known = code < len(printer.names) and printer.names[code]
    return printer.names[code] if known else f"UNKNOWN_{code}"


@pytest.mark.parametrize("commit", WITH_SOURCES)
def test_true_names_are_left_alone(commit: str) -> None:
    samples = samples_of(commit)

    assert agreement(samples) == 1.0
    assert not needs_repair(samples)
    assert repair(samples) is None


@pytest.mark.parametrize("commit", WITH_SOURCES)
@pytest.mark.parametrize(
    "printer", [p for p in printers() if p.names != WRITER.names], ids=lambda p: p.id
)
def test_names_of_any_other_table_are_turned_back(
    commit: str, printer: OpTable
) -> None:
    samples = samples_of(commit)
    wrong = misprinted(samples, printer)
    if agreement(wrong) == 1.0:
        pytest.skip("nothing that determines its op is printed wrong")

    assert needs_repair(wrong)
    repaired_trace = repair(wrong)

    assert repaired_trace is not None
    assert [repaired_trace.names[s.printed] for s in wrong] == [
        s.printed for s in samples
    ]
    assert repaired_trace.after == 1.0
    assert repaired_trace.before == agreement(wrong)


def test_first_exporter_prints_what_is_known_of_it() -> None:
    """The mysteries of the first published trace (its writer had 95 ops)."""
    first = printers()[0]
    real = ("ADD", "MUL", "RMS_NORM", "MUL_MAT", "CPY", "GET_ROWS", "SET_ROWS", "ROPE",
            "FLASH_ATTN_EXT", "GLU")  # fmt: skip

    assert [printed(name, first) for name in real] == [
        "ADD", "LOG", "OUT_PROD", "CONT", "GET_ROWS", "SOFT_MAX_BACK", "ROPE_BACK",
        "POOL_1D", "MAP_CUSTOM2", "UNKNOWN_94",
    ]  # fmt: skip


def test_known_printers_equal_the_reference() -> None:
    reference = json.loads((need_corpus() / "reader_op_tables.json").read_text())
    lists = [tuple(names) for names in reference.values() if isinstance(names, list)]

    assert [p.names for p in printers()[: len(lists)]] == lists


def test_names_that_no_table_explains_are_not_repaired() -> None:
    samples = [
        PrintedSample("ARGSORT", "kq", ("a", "b"), 2),
        PrintedSample("NO_SUCH_OP", "l_out-0", ("a", "b"), 2),
    ]

    assert needs_repair(samples)
    assert repair(samples) is None


def test_samples_that_say_nothing_have_no_agreement() -> None:
    samples = [PrintedSample("UNKNOWN_7", "node_3", ("a", "b"), 2)]

    assert agreement(samples) is None
    assert repair(samples) is None


def test_unknown_number_that_the_printer_knows_rules_it_out() -> None:
    samples = [
        PrintedSample("LOG", "attn_norm-0", ("norm-0", "blk.0.attn_norm.weight"), 2),
        PrintedSample("UNKNOWN_1", "node_1", ("a",), 1),
    ]

    repaired_trace = repair(samples)

    assert repaired_trace is None or repaired_trace.printer is not printers()[0]
