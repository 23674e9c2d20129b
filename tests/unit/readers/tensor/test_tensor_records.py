"""Record layouts, and single records decoded for people."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import ReadError, TruncatedError
from ggscope.model.ggml.ops import table
from ggscope.readers.tensor.layouts import BUFFER_128, TensorRecords
from ggscope.readers.tensor.layouts import LAYOUTS as KNOWN
from tensor_files import (
    LAYOUTS,
    SIZES,
    Src,
    buffer_event,
    encode,
    encode_one,
    llama_trace,
    one_source_each,
    weight,
)

OPS = table("ggml-2025-11-25-95")


def fields_of(
    tmp_path: Path, data: bytes, layout: str, record: int = 0
) -> dict[str, str]:
    path = tmp_path / "t.bin"
    path.write_bytes(data)
    view = TensorRecords(path, KNOWN[layout], OPS).view(record)
    return {name: text for name, text, _, _ in view.fields}


@pytest.mark.parametrize("layout", [*LAYOUTS, "buffer128"])
def test_fields_lie_inside_the_record_and_apart(layout: str) -> None:
    known = KNOWN[layout]
    taken = np.zeros(known.size, int)

    for _, offset, length in known.fields():
        taken[offset : offset + length] += 1

    assert known.size == SIZES.get(layout, 128)
    assert taken.max() == 1
    assert taken[:24].min() == 1


def test_view_gives_bytes_and_offsets(tmp_path: Path) -> None:
    records = llama_trace()
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256"))

    view = TensorRecords(path, KNOWN["256"], OPS).view(4)

    assert view.offset == 4 * 256
    assert view.data == encode_one(records[4], "256")
    places = {name: (at, length) for name, _, at, length in view.fields}
    assert places["dst_name"] == (24, 24)
    assert places["sources[1].tensor_ptr"] == (120, 8)
    assert [at for _, _, at, _ in view.fields] == sorted(
        at for at, _ in places.values()
    )


def test_sentinels_are_printed_as_not_available(tmp_path: Path) -> None:
    odd = Src("x", mem=0, where=0xFFFF_FFFF_FFFF_FFFF)
    record = replace(llama_trace()[1], token=0xFFFF_FFFF, dst="", sources=(odd,))

    fields = fields_of(tmp_path, encode_one(record, "256"), "256")

    for name in (
        "layer_id", "token_id", "dst_name", "sources[0].tensor_idx",
        "sources[0].layer_id", "sources[0].disk_offset_or_buffer_id",
    ):  # fmt: skip
        assert fields[name] == "N/A", name
    assert "65535" not in " ".join(fields.values())


def test_values_are_printed_with_their_meaning(tmp_path: Path) -> None:
    record = replace(
        llama_trace()[3], phase=1, duration=700, experts=(5, 9), layer=2,
        sources=(weight("blk.2.x", 2, 0x4000), Src("y", pad2=b"\x01\x02\x03\x04")),
    )  # fmt: skip

    fields = fields_of(tmp_path, encode_one(record, "1024"), "1024")

    assert fields["operation_type"] == "29 = MUL_MAT"
    assert fields["phase"] == "1 = generate"
    assert fields["duration"] == "700"
    assert fields["layer_id"] == "2"
    assert fields["sources[0].memory_source"] == "0 = disk (weight in the file)"
    assert fields["sources[0].disk_offset_or_buffer_id"] == "0x4000"
    assert fields["sources[0].size_bytes"] == "2,048 = 2.0 KiB"
    assert fields["sources[0].name"] == "'blk.2.x'"
    assert fields["sources[1].pad2"] == "01 02 03 04"
    assert fields["sources[2].pad2"] == "0"
    assert fields["expert_ids"].startswith("5, 9, 0")
    assert fields["timestamp_ns"] == f"{record.time:,}"


def test_extension_and_odd_codes_are_printed_plainly(tmp_path: Path) -> None:
    record = replace(llama_trace()[3], op=0xF0, phase=7)

    fields = fields_of(tmp_path, encode_one(record, "256"), "256")

    assert fields["operation_type"] == "240 = extension record"
    assert fields["phase"] == "7"


def test_op_without_table_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(one_source_each(llama_trace())[:1], "64p"))

    view = TensorRecords(path, KNOWN["64p"]).view(0)

    assert ("operation_type", "1", 16, 1) in view.fields


def test_buffer_event_is_printed(tmp_path: Path) -> None:
    fields = fields_of(tmp_path, buffer_event(5, 1, 0xABC, 1024, "KV"), "buffer128")

    assert fields["event_type"] == "1 = dealloc"
    assert fields["usage"] == "2 = compute"
    assert fields["buffer_id"] == "0xabc"
    assert fields["backend"] == "'CPU'"


def test_record_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace()[:3], "256")[:-1])
    records = TensorRecords(path, KNOWN["256"], OPS)

    with pytest.raises(TruncatedError, match="is gone"):
        records.view(2)
    with pytest.raises(IndexError):
        records.view(-1)
    path.unlink()
    with pytest.raises(ReadError):
        records.view(0)


def test_buffer_layout_has_no_sources() -> None:
    assert BUFFER_128.source_width == 0
    assert KNOWN["256"].source_width == 20
