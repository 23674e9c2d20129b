"""The tracer's registry of tensors: addresses, numbers and empty dumps."""

import numpy as np
import pytest

from ggscope.errors import CorruptError
from ggscope.model.trace import Severity
from ggscope.readers.api import HEAD_BYTES, Head
from ggscope.readers.maps.csv import RegistryCsvReader
from map_files import REGISTRY, codes, listed, read_at, read_side, table
from support import need_corpus

ROWS = (
    "0,output.weight,0x7f00000b3ba0,736160,8192,65535",
    "1,blk.3.attn_q.weight,(nil),744352,64,3",
)


def read(folder, *rows):
    return read_side(RegistryCsvReader(), folder, table(REGISTRY, rows), "r.csv")


def test_rows_become_tensors_with_addresses(tmp_path):
    trace = read(tmp_path, *ROWS)

    t = trace.tensors
    assert codes(trace) == {}
    assert listed(trace) == [
        ("output.weight", 736160, 8192),
        ("blk.3.attn_q.weight", 744352, 64),
    ]
    assert t.address.dtype == np.uint64
    assert t.address.tolist() == [0x7F00000B3BA0, 0]
    assert t.layer.tolist() == [-1, 3]
    assert t.shape.tolist() == [[0] * 4] * 2


def test_real_registry_has_all_its_rows():
    folder = need_corpus() / "tracer"

    full = read_at(RegistryCsvReader(), folder / "registry_f16_derived.csv")
    empty = read_at(RegistryCsvReader(), folder / "registry_header_only.csv")

    assert (len(full.tensors), codes(full)) == (201, {})
    assert (full.tensors.address > 0).all()
    assert len(empty.tensors) == 0
    assert codes(empty) == {"registry_empty": 1}
    assert empty.warnings[0].severity is Severity.INFO


def test_rows_are_ordered_by_their_number(tmp_path):
    trace = read(tmp_path, "1,b,0x2,,5,0", "0,a,0x1,,4,0")

    assert [name for name, _, _ in listed(trace)] == ["a", "b"]
    assert trace.tensors.address.tolist() == [1, 2]


@pytest.mark.parametrize("numbers", [(0, 2), (1, 1), (5, 6)])
def test_numbers_with_gaps_are_reported_and_file_order_kept(tmp_path, numbers):
    rows = [f"{n},t{i},0x1,100,4,0" for i, n in enumerate(numbers)]

    trace = read(tmp_path, *rows)

    assert codes(trace)["registry_numbers"] == 1
    assert [name for name, _, _ in listed(trace)] == ["t0", "t1"]


def test_offsets_of_zero_throughout_are_unknown(tmp_path):
    trace = read(tmp_path, "0,a,0x1,0,4,0", "1,b,0x2,0,4,0")

    assert [offset for _, offset, _ in listed(trace)] == [-1, -1]
    assert codes(trace) == {"map_no_offset": 2}


def test_offset_beyond_63_bits_is_unknown(tmp_path):
    trace = read(tmp_path, "0,a,0x1,18446744073709551615,4,0", "1,b,0x2,0,4,0")

    assert [offset for _, offset, _ in listed(trace)] == [-1, 0]


@pytest.mark.parametrize(
    "stray",
    [
        "done",
        "x,a,0x1,0,4,0",
        "1,,0x1,0,4,0",
        "1,a,zebra,0,4,0",
        "1,a,0x1,0,?,0",
        "1,a,0x11112222333344445,0,4,0",
    ],
)
def test_stray_line_is_skipped_and_reported(tmp_path, stray):
    trace = read(tmp_path, ROWS[0], stray)

    assert len(trace.tensors) == 1
    assert trace.warnings[0].code == "csv_stray_line"
    assert trace.warnings[0].place == "line 3"


def test_name_with_commas_keeps_them(tmp_path):
    trace = read(tmp_path, "0,a,b,0x1,7,4,0")

    assert listed(trace) == [("a,b", 7, 4)]


def test_sniff_shows_it_from_the_structure_table():
    def sniffed(text):
        data = text.encode()
        head = Head("r.csv", len(data), data[:HEAD_BYTES])
        return RegistryCsvReader().sniff(head).confidence

    assert sniffed(table(REGISTRY, ROWS)) == 90
    assert sniffed("tensor_name,file_offset,size_bytes\n") == 0
    assert sniffed("\0" + table(REGISTRY, ROWS)) == 0


def test_text_without_a_header_is_a_clear_error(tmp_path):
    with pytest.raises(CorruptError, match="header of a tensor table"):
        read_side(RegistryCsvReader(), tmp_path, "hello\n")
