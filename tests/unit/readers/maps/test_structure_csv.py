"""Tables of tensors in CSV: both dialects, captured noise and stray lines."""

import pytest

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.tensors import Place, SizeSource
from ggscope.readers.api import HEAD_BYTES, Head
from ggscope.readers.maps import csv as maps_csv
from ggscope.readers.maps.csv import MAX_BYTES, StructureCsvReader, whole
from map_files import STRUCTURE, codes, listed, message_of, read_at, read_side, table
from support import need_corpus

DECEMBER = "tensor_name,offset_bytes,size_bytes,type,layer,component"
ROWS = (
    "output.weight,100,80,-1,Output Projection,2,4,5,0,0",
    "blk.1.attn_norm.weight,180,16,1,Attention Norm,1,4,0,0,0",
    "blk.2.ffn_up_exps.weight,196,64,2,FFN Up,3,2,4,2,0",
)


def read(folder, text):
    return read_side(StructureCsvReader(), folder, text, "t.csv")


def corpus(name):
    return read_at(StructureCsvReader(), need_corpus() / "tracer" / name)


def sniffed(text):
    data = text.encode()
    return StructureCsvReader().sniff(Head("t.csv", len(data), data[:HEAD_BYTES]))


def test_rows_become_tensors(tmp_path):
    trace = read(tmp_path, table(STRUCTURE, ROWS))

    t = trace.tensors
    assert codes(trace) == {}
    assert listed(trace) == [
        ("output.weight", 100, 80),
        ("blk.1.attn_norm.weight", 180, 16),
        ("blk.2.ffn_up_exps.weight", 196, 64),
    ]
    assert t.layer.tolist() == [-1, 1, 2]
    assert t.shape.tolist() == [[4, 5, 1, 1], [4, 1, 1, 1], [2, 4, 2, 1]]
    assert t.n_experts.tolist() == [0, 0, 2]
    assert set(t.place.tolist()) == {Place.LISTED}
    assert set(t.size_source.tolist()) == {SizeSource.LISTED}
    assert trace.models[0].name == "t"
    assert trace.info.summary["component_types"]["FFN Up"] == 1


def test_real_quantised_table_is_repaired():
    trace = corpus("tinyllama_structure.csv")

    assert len(trace.tensors) == 201
    assert trace.info.summary["max_end"] == 701267968
    assert codes(trace) == {"map_overlaps": 156, "map_relative_offsets": 1}
    assert trace.tensors.size.sum() == 667070464 + 8192
    assert int(trace.tensors.layer.max()) == 21


def test_real_corrected_table_needs_nothing():
    trace = corpus("tinyllama-f16-CORRECTED.csv")

    assert (len(trace.tensors), codes(trace)) == (201, {})
    assert trace.info.summary["first_offset"] == 736160
    assert trace.info.summary["max_end"] == 2201017248


def test_real_table_inside_captured_output_equals_the_plain_one():
    noisy, plain = (
        corpus("structure_with_stderr_noise.csv"),
        corpus("tinyllama_structure.csv"),
    )

    assert listed(noisy) == listed(plain)
    assert codes(noisy)["csv_lines_before"] == 4
    assert codes(noisy)["csv_stray_line"] == 1
    stray = next(w for w in noisy.warnings if w.code == "csv_stray_line")
    assert (stray.place, "Dumped 201 tensors" in stray.message) == ("line 209", True)


def test_real_december_dialect_has_types():
    trace = corpus("structure_dec30_dialect.csv")

    assert trace.tensors.type.tolist() == [1, 0, 0, 1]
    assert trace.tensors.layer.tolist() == [-1, -1, 0, 0]
    assert trace.tensors.shape.tolist() == [[0] * 4] * 4
    assert trace.info.format_version == "2025-12"


@pytest.mark.parametrize(
    "stray",
    [
        "Dumped 3 tensors",
        "a,b,c",
        "x,12,none,-1,y,1,1,0,0,0",
        "x,0x12,4,-1,y,1,1,0,0,0",
        "x,,4,-1,y,1,1,0,0,0",
        ",12,4,-1,y,1,1,0,0,0",
        "x,12,4,-1,y,1,1,0,0",
        STRUCTURE,
        "gguf: warning, with, many, commas, in, it, 1, 2, 3, 4, 5, 6",
    ],
)
def test_stray_line_is_skipped_and_reported_with_its_number(tmp_path, stray):
    text = table(STRUCTURE, [ROWS[0], stray, ROWS[1]])

    trace = read(tmp_path, text)

    token = next(w for w in trace.warnings if w.code == "csv_stray_line")
    assert len(trace.tensors) == 2
    assert (token.place, token.count) == ("line 3", 1)
    assert token.offset == text.index("\n" + stray) + 1
    assert stray[:60] in token.message


def test_many_stray_lines_are_counted_and_the_first_ones_numbered(tmp_path):
    trace = read(tmp_path, table(STRUCTURE, ["noise"] * 9 + [ROWS[0]]))

    message = message_of(trace, "csv_stray_line")
    assert message.startswith("Lines 2, 3, 4, 5 … are")
    assert codes(trace)["csv_stray_line"] == 9


def test_name_with_commas_keeps_them(tmp_path):
    trace = read(tmp_path, table(STRUCTURE, ["a,b,c,5,4,-1,X,1,1,0,0,0"]))

    assert listed(trace) == [("a,b,c", 5, 4)]


def test_windows_line_ends_blank_lines_and_mark_do_no_harm(tmp_path):
    text = "\ufeff" + table(STRUCTURE, [ROWS[0], "", ROWS[1], ""], end="\r\n")

    trace = read(tmp_path, text)

    assert sniffed(text).confidence == 90
    assert (len(trace.tensors), codes(trace)) == (2, {})


def test_columns_in_another_order_are_found_by_name(tmp_path):
    header = "tensor_name, file_offset ,extra,size_bytes"

    assert listed(read(tmp_path, table(header, ["a,5,?,4"]))) == [("a", 5, 4)]


def test_header_alone_is_an_empty_table(tmp_path):
    trace = read(tmp_path, table(STRUCTURE, []))

    assert (len(trace.tensors), codes(trace)) == (0, {})


def test_last_row_without_a_line_end_may_be_cut(tmp_path):
    trace = read(tmp_path, table(STRUCTURE, ROWS).rstrip("\n"))

    assert codes(trace) == {"csv_open_end": 1}
    assert trace.warnings[0].place == "line 4"


def test_slices_of_experts_are_reported(tmp_path):
    rows = [f"x_exps.weight[{k}],{10 * k},10,0,FFN,1,5,0,0,0" for k in range(4)]

    trace = read(tmp_path, table(STRUCTURE, rows))

    assert trace.tensors.expert.tolist() == [0, 1, 2, 3]
    assert codes(trace)["map_slices"] == 1


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        (table(STRUCTURE, []), 90),
        ("noise\nmore\n" + table(DECEMBER, []), 90),
        ("tensor_idx,tensor_name,data_ptr\n", 0),
        ("tensor_name\n", 0),
        ("\0tensor_name,file_offset,\n", 0),
        ("", 0),
    ],
)
def test_sniff_wants_the_header_line(text, confidence):
    assert sniffed(text).confidence == confidence


def test_text_without_a_header_is_a_clear_error(tmp_path):
    with pytest.raises(CorruptError, match="header of a tensor table"):
        read(tmp_path, "hello\nworld\n")


def test_file_larger_than_any_table_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(table(STRUCTURE, ROWS))
    with path.open("r+b") as file:
        file.truncate(MAX_BYTES + 1)

    with pytest.raises(LimitExceededError, match="at most"):
        read_at(StructureCsvReader(), path)


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), (" -1 ", -1), ("", None), ("0x1", None), ("1.5", None), ("-", None),
     ("١٢", None), ("9" * 21, None), ("--1", None)],
)  # fmt: skip
def test_whole_takes_decimal_numbers_only(text, number):
    assert whole(text) == number
    assert maps_csv.whole(f" {text}\r") == number


def test_of_very_many_rows_and_strays_only_some_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(maps_csv, "MAX_ROWS", 2)
    rows = [f"t{i},{64 * i},64,0,FFN,1,16,0,0,0" for i in range(5)]
    text = table(STRUCTURE, ["x"] * 30 + rows + ["y" * 70_000 + ",," * 9])

    trace = read_side(StructureCsvReader(), tmp_path, text, "s.csv")

    result = codes(trace)
    assert len(trace.tensors) == 2
    assert result["csv_too_many"] == 3
    assert result["csv_stray_line"] == 31
    assert message_of(trace, "csv_stray_line").startswith("Lines 2, 3, 4, 5 … are")
