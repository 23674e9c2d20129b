"""Tables of layer and expert become routing, whatever stands between their rows."""

import csv
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import people
from ggscope.errors import CorruptError
from ggscope.model.trace import Trace
from ggscope.readers.api import Head
from ggscope.readers.common import csv_rows
from ggscope.readers.common.csv_rows import rows_of
from ggscope.readers.experts.moe_csv import MoeCsvReader
from side_files import codes, confidence, read_text

READER = MoeCsvReader()


def read(folder: Path, text: str) -> Trace:
    return read_text(READER, folder, text, "moe_trace.csv")


def pairs(trace: Trace) -> list[tuple[int, int]]:
    r = trace.routing
    return list(zip(r.layer.tolist(), r.expert.tolist(), strict=True))


@pytest.mark.parametrize("header", ["", "layer,expert\n", " Layer , Expert\r\n"])
def test_rows_are_choices_in_file_order(tmp_path, header: str) -> None:
    trace = read(tmp_path, header + "0,5\n0,31\n23,0\n0,5\n")

    r = trace.routing
    assert pairs(trace) == [(0, 5), (0, 31), (23, 0), (0, 5)]
    assert set(r.token.tolist()) == set(r.rank.tolist()) == set(r.time.tolist()) == {-1}
    assert np.isnan(r.score).all()
    assert r.is_used.all()
    assert codes(trace) == {"tokens_not_recorded": 1}
    assert trace.info.n_records == 4


def test_more_columns_are_found_by_name(tmp_path) -> None:
    text = (
        "# route_trace v1\n# model=x n_layer=2\n"
        "turn,phase,step,layer,slot,expert,weight,residency\n"
        "0,prefill,7,1,0,9,0.75,miss\n0,decode,8,1,1,3,,hit\n0,decode,9,1,1,4,?,hit\n"
    )

    trace = read(tmp_path, text)

    r = trace.routing
    assert pairs(trace) == [(1, 9), (1, 3), (1, 4)]
    assert r.token.tolist() == [7, 8, 9]
    assert r.rank.tolist() == [0, 1, 1]
    assert (r.phase, r.residency) == (None, None)
    assert r.score.tolist()[0] == 0.75
    assert np.isnan(r.score[1:]).all()
    assert codes(trace) == {"unknown_column": 2}


def test_residency_of_a_route_trace_is_counted(tmp_path) -> None:
    text = (
        "# route_trace v1\n# model=x n_layer=2\n# layer=0 expert_bytes=7\n"
        "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
        "0,0,0,1,0,9,0.75,0,4096\n0,0,0,1,1,3,0.2,0,0\n"
        "0,1,1,1,1,4,0.1,1,0\n0,1,1,1,0,9,0.1,2,1024\n0,1,1,1,0,9,0.1,0,2048\n"
        "0,1,1,1,0,9,0.1,3,5\n0,x,1,1,0,9,0.1,1,5\n"
    )

    trace = read(tmp_path, text)

    facts = trace.info.producer
    assert (facts["model"], facts["n_layer"]) == ("x", "2")
    assert facts["prompt_experts"] == "2 chosen: 0 hit, 0 prefetch hit, 2 miss"
    assert facts["prompt_experts_read"] == "4.0 KiB"
    assert facts["generation_experts"] == "3 chosen: 1 hit, 1 prefetch hit, 1 miss"
    assert facts["generation_experts_read"] == "3.0 KiB"
    assert len(trace.routing) == 7
    assert trace.routing.phase.tolist() == [0, 0, 1, 1, 1, 1, -1]
    assert trace.routing.residency.tolist() == [0, 0, 1, 2, 0, -1, 1]
    assert codes(trace) == {}


def test_dropped_experts_are_chosen_but_do_not_compute(tmp_path):
    text = (
        "# route_trace v1\n# model=x n_layer=2\n# layer=0 expert_bytes=1024 "
        "dense_bytes=4096\n# layer=1 expert_bytes=2048 dense_bytes=4096\n"
        "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes,dropped\n"
        "0,1,0,1,0,9,0.75,0,0,1\n0,1,0,1,1,3,nan,1,0,0\n0,1,0,1,1,3,0.1,1,0,?\n"
    )

    trace = read(tmp_path, text)

    assert trace.routing.is_used.tolist() == [False, True, True]
    assert np.isnan(trace.routing.score[1])
    facts = trace.info.producer
    assert facts["dropped_experts"] == "1"
    assert facts["bytes_of_an_expert"] == "1.0 KiB to 2.0 KiB"
    assert facts["dense_bytes"] == "8.0 KiB in 2 layers"
    assert codes(trace) == {}


@people.each("csv", lambda name, _: name.endswith(".route.csv"))
def test_residency_of_a_real_route_trace_is_that_of_its_rows(tmp_path, name) -> None:
    text = people.content(name).decode()
    lines = [line for line in text.splitlines() if line[0] != "#"]
    rows = list(csv.DictReader(lines))
    n = Counter((row["phase"], row["residency"]) for row in rows)

    facts = read(tmp_path, text).info.producer

    assert facts["generation_experts"] == (
        f"{n['1', '0'] + n['1', '1']:,} chosen: {n['1', '1']:,} hit, 0 prefetch hit, "
        f"{n['1', '0']:,} miss"
    )
    assert facts["n_expert_used"] == "6"


def test_tokens_of_later_turns_are_others(tmp_path) -> None:
    text = "turn,step,layer,slot,expert\n0,7,1,0,9\n0,8,1,0,3\n1,7,1,0,4\n1,7,2,0,4\n"

    trace = read(tmp_path, text)

    assert trace.routing.token.tolist() == [0, 1, 2, 2]
    assert trace.info.summary["events"] == {"rows": 4}


def test_scores_that_are_all_missing_are_unknown(tmp_path) -> None:
    trace = read(tmp_path, "layer,expert,score\n1,2,\n1,3,\n")

    assert np.isnan(trace.routing.score).all()


def test_stray_lines_are_counted_with_the_first_number(tmp_path) -> None:
    text = "layer,expert\n1,2\nhello\n3,x\n\n# note\n4,5,6\n99999,1\n-1,3\n3, 4 \r\n"

    trace = read(tmp_path, text)

    assert pairs(trace) == [(1, 2), (3, 4)]
    assert codes(trace)["stray_line"] == 5
    assert next(w.place for w in trace.warnings if w.code == "stray_line") == "line 3"


def test_lines_before_the_names_are_skipped(tmp_path) -> None:
    trace = read(tmp_path, "loading model\n7,7\nlayer,expert\n1,2\n")

    assert pairs(trace) == [(1, 2)]
    assert codes(trace)["lines_before_table"] == 2


def test_last_line_without_its_end_is_left_out(tmp_path) -> None:
    trace = read(tmp_path, "layer,expert\n1,2\n1,3")

    assert pairs(trace) == [(1, 2)]
    assert codes(trace)["unfinished_line"] == 1
    note = next(w for w in trace.warnings if w.code == "unfinished_line")
    assert note.place == "line 3"


def test_table_without_rows_is_an_error(tmp_path) -> None:
    with pytest.raises(CorruptError, match="no line has"):
        read(tmp_path, "layer,expert\n")


def test_blocks_do_not_break_rows(tmp_path, monkeypatch) -> None:
    rng = random.Random(3)
    rows = [(rng.randrange(24), rng.randrange(512)) for _ in range(3000)]
    text = "layer,expert\n" + "".join(f"{a},{b}\n" for a, b in rows) + "x\n"
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1000)

    trace = read(tmp_path, text)

    assert pairs(trace) == rows
    assert next(w.place for w in trace.warnings if w.code == "stray_line") == (
        "line 3,002"
    )


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="0123,\n\r #x.-", max_size=120))
def test_numbers_equal_those_of_a_line_by_line_reading(text: str) -> None:
    data = np.frombuffer((text + "\n").encode(), np.uint8)

    rows = rows_of(data, 2)

    (first, good_first), (second, good_second) = rows.integers(0), rows.integers(1)
    good = good_first & good_second
    expected = []
    for line in (text + "\n").split("\n")[:-1]:
        fields = line.removesuffix("\r").split(",")
        trimmed = [f.removeprefix(" ").removesuffix(" ") for f in fields]
        if len(fields) == 2 and all(f.isdigit() and len(f) <= 18 for f in trimmed):
            expected.append((int(trimmed[0]), int(trimmed[1])))
    assert list(zip(first[good].tolist(), second[good].tolist(), strict=True)) == (
        expected
    )
    assert len(rows.strays) + len(rows.line) <= rows.n_lines


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [("layer,expert\n", "x.csv", 90), ("banner\n il , expert_id,x\n", "x.txt", 90),
     ("1,2\n3,4\n", "moe_trace.csv", 60), ("1,2\n3,4\n", "x.csv", 25),
     ("1,2\nhello\n", "moe_trace.csv", 0), ("1,2,3\n", "moe.csv", 0),
     ("", "moe.csv", 0), ("1,2\n\0", "moe.csv", 0),
     ("tensor_name,file_offset,size_bytes,layer_id,component_type\n", "x.csv", 0)],
)  # fmt: skip
def test_sniff_looks_for_names_or_pairs(text: str, name: str, expected: int) -> None:
    assert confidence(READER, text, name) == expected


def test_estimate_counts_rows_by_the_head() -> None:
    data = b"1,2\n" * 1000

    cost = READER.estimate(Head("moe.csv", 4_000_000, data))

    assert cost is not None
    assert cost.records == 1_000_000
    assert READER.estimate(Head("moe.csv", 3, b"1,2")) is None
