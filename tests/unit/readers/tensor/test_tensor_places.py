"""Where accesses of tensor records lie: places, fields that were not set, experts."""

import struct
from pathlib import Path

import pytest

from builders import statistics
from ggscope.analysis.reads.hotness import space_totals
from ggscope.exporters import tensor_access
from ggscope.exporters.events import Events
from ggscope.model.tables import Space
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_parts
from tensor_files import NO_LAYER, Rec, Src, encode, encode_one

NO_PLACE = (1 << 64) - 1
MODEL = (
    "blk.0.attn_norm.weight",
    "blk.0.ffn_gate_exps.bias",
    "blk.0.ffn_gate_exps.weight",
    "blk.1.ffn_gate_exps.bias",
    "blk.1.ffn_gate_exps.weight",
)
SIZE = 1024


def weights(places: list[int], names: tuple[str, ...] = MODEL) -> list[Rec]:
    """Return records that each read one weight, with cut names."""
    return [
        Rec(1000 + 100 * i, f"out-{i}", 29, (Src(name[:19], 4096 + i, SIZE, mem=0,
            where=place),))
        for i, (name, place) in enumerate(zip(names, places, strict=True))
    ]  # fmt: skip


def read(folder: Path, data: bytes, name: str = "trace.bin") -> Trace:
    path = folder / name
    path.write_bytes(data)
    return open_trace(path)


def with_map(folder: Path, records: list[Rec]) -> Trace:
    """Return the trace of records with a table that lists `MODEL` from 4096 on."""
    head = "tensor_name,file_offset,size_bytes,layer_id,component_type,n_dims,dim0"
    rows = [f"{n},{4096 + SIZE * i},{SIZE},0,x,1,256" for i, n in enumerate(MODEL)]
    (folder / "map.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "trace.bin").write_bytes(encode(records, "256"))
    bundle = survey([folder / "trace.bin", folder / "map.csv"])
    return open_parts(bundle).trace


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


def bytes_by_tensor(trace: Trace) -> dict[str, int]:
    return {row.key: row.bytes for row in statistics(trace, "tensor") if row.bytes}


@pytest.mark.parametrize(
    ("places", "offsets"),
    [
        ([0, 0, 0, 0, 0], [-1] * 5),
        ([NO_PLACE] * 5, [-1] * 5),
        ([0, 1024, 2048, 3072, 4096], [0, 1024, 2048, 3072, 4096]),
        ([0, 0, 2048, 3072, 4096], [-1, -1, 2048, 3072, 4096]),
    ],
)
def test_zero_is_the_place_of_one_tensor_among_others(tmp_path, places, offsets):
    names = tuple(f"w{i}.weight" for i in range(5))

    trace = read(tmp_path, encode(weights(places, names), "256"))

    assert trace.accesses.patterns.offset.tolist() == offsets
    assert (trace.tensors.offset == 0).sum() == offsets.count(0)
    assert ("places_not_set" in codes(trace)) == (places.count(0) > 1)


@pytest.mark.parametrize("place", [0, NO_PLACE])
def test_names_map_where_places_were_not_set(tmp_path, place):
    trace = with_map(tmp_path, weights([place] * 5))

    (fit,) = (join for join in trace.joins if join.kind == "map")
    assert (fit.n_found, fit.n_all, fit.delta) == (1, 5, None)
    assert bytes_by_tensor(trace) == {
        "blk.0.attn_norm.weight~": SIZE,
        "blk.0.ffn_gate_exps": 2 * SIZE,
        "blk.1.ffn_gate_exps": 2 * SIZE,
    }


def test_place_does_not_overrule_what_a_cut_name_says(tmp_path):
    # The writer gives all experts of layer 1 the place of layer 0's.
    trace = with_map(tmp_path, weights([4096, 5120, 6144, 5120, 6144]))

    assert bytes_by_tensor(trace) == {
        "blk.0.attn_norm.weight": SIZE,
        "blk.0.ffn_gate_exps.bias": SIZE,
        "blk.0.ffn_gate_exps.weight": SIZE,
        "blk.1.ffn_gate_exps": 2 * SIZE,
    }


@pytest.mark.parametrize("places", [[0] * 5, [NO_PLACE] * 5, [0, 0, 5, 6, 7]])
def test_places_that_were_not_set_come_back_as_they_were(tmp_path, places):
    data = encode(weights(places), "256")
    out = tmp_path / "out.bin"

    out.write_bytes(b"".join(tensor_access.chunks(Events(read(tmp_path, data)))))

    assert out.read_bytes() == data


def single(layout: str, places: list[int], experts: list[int]) -> bytes:
    """Return records of one access each; expert 255 is none."""
    parts, at = [], {"64p": 52, "64a": 56, "128": 52}[layout]
    for i, (place, expert) in enumerate(zip(places, experts, strict=True)):
        source = Src(f"t{i}", 0x7F00_0000_0000 + 4096 * i, SIZE, NO_LAYER, 0, place)
        record = Rec(1000 + 10 * i, op=1, layer=0, token=i // 3, sources=(source,))
        raw = bytearray(encode_one(record, layout))
        rank = 255 if expert == 255 else 0
        raw[at : at + 4] = struct.pack("<BBH", expert, rank, 0)
        parts.append(bytes(raw))
    return b"".join(parts)


@pytest.mark.parametrize("layout", ["64p", "64a", "128"])
def test_access_without_a_place_is_a_runtime_tensors_where_weights_have_places(
    tmp_path, layout
):
    none = [255] * 6
    some = read(tmp_path, single(layout, [4096, 0, 8192, 0, 0, NO_PLACE], none))
    no_place = read(tmp_path, single(layout, [0] * 6, none))

    space = some.accesses.patterns.space
    assert space.tolist() == [
        Space.FILE, Space.BUFFER, Space.FILE, Space.BUFFER, Space.BUFFER,
        Space.UNKNOWN,
    ]  # fmt: skip
    assert space_totals(some).ratio == pytest.approx(3 / 2)
    assert set(no_place.accesses.patterns.space.tolist()) == {Space.UNKNOWN}
    assert space_totals(no_place).ratio is None


@pytest.mark.parametrize("layout", ["64p", "64a", "128"])
def test_experts_of_short_records_are_those_of_their_accesses(tmp_path, layout):
    experts = [255, 5, 0, 255, 5, 3]

    trace = read(tmp_path, single(layout, [0, 4096, 8192, 0, 4096, 12288], experts))

    counts = {row.key: row.count for row in statistics(trace, "expert")}
    assert counts == {"none": 2, "5": 2, "0": 1, "3": 1}
    assert set(trace.routing.expert.tolist()) == {5, 0, 3}


def test_experts_that_were_never_set_are_none(tmp_path):
    trace = read(tmp_path, single("64p", [4096, 8192], [0, 0]))

    assert trace.accesses.patterns.expert.tolist() == [-1, -1]
