"""Lists of tensor names, and how records find theirs in them."""

import struct
from pathlib import Path

import pytest

from ggscope.errors import CorruptError, LimitExceededError, UnknownFormatError
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.readers.maps import names
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_parts
from tensor_files import NO_LAYER, Rec, Src, encode_one

NAMES = ("token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.weight")
INDEX_AT = 24
"""Of ``tensor_idx`` in a record of 64 bytes."""


def listed(folder: Path, text: str, name: str = "tensor_names.txt") -> Trace:
    path = folder / name
    path.write_text(text)
    return open_trace(path)


def names_of(trace: Trace) -> list[str]:
    return [trace.strings[i] for i in trace.tensors.name.tolist()]


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


@pytest.mark.parametrize(
    "form",
    ["{n}", "{i} {n}", "{i}: {n}", "[{i}] {n}", "{i},{n}", "{i}\t0x{a:x}\t{n}",
     "0x{a:x} {n}", '{i} = "{n}"', "  {n}  "],
)  # fmt: skip
def test_names_are_read_in_every_form(form: str, tmp_path: Path) -> None:
    lines = [form.format(i=i, n=n, a=4096 * (i + 1)) for i, n in enumerate(NAMES)]

    trace = listed(tmp_path, "# of a run\n\n" + "\n".join(lines) + "\n")

    assert trace.info.reader_id == "tensor-names"
    assert names_of(trace) == list(NAMES)
    assert trace.tensors.layer.tolist() == [-1, 0, 0]
    assert trace.warnings == ()
    if "0x" in form:
        assert trace.tensors.address is not None
        assert trace.tensors.address.tolist() == [4096, 8192, 12288]


def test_numbers_show_the_order(tmp_path: Path) -> None:
    trace = listed(tmp_path, f"2 {NAMES[2]}\n0 {NAMES[0]}\n1 {NAMES[1]}\n")

    assert names_of(trace) == list(NAMES)


@pytest.mark.parametrize("numbers", [(1, 2, 3), (0, 1, 1), (0, 2, 3)])
def test_numbers_with_gaps_join_nothing(numbers, tmp_path: Path) -> None:
    lines = [f"{i} {n}\n" for i, n in zip(numbers, NAMES, strict=True)]

    assert "registry_numbers" in codes(listed(tmp_path, "".join(lines)))


def test_lines_that_are_no_names_are_reported(tmp_path: Path) -> None:
    rows = [f"blk.{i}.attn_q.weight\n" for i in range(40)]
    trace = listed(tmp_path, "".join([*rows[:20], "a {b}\n", *rows[20:]]).rstrip())

    assert len(trace.tensors) == 40
    (odd,) = (w for w in trace.warnings if w.code == "names_stray_line")
    assert (odd.count, odd.place) == (1, "line 21")
    assert "names_open_end" in codes(trace)


def test_other_texts_are_no_lists(tmp_path: Path) -> None:
    for text in ("one\ntwo\nthree\n", "int main() {\n}\n", "a = 1\n" * 9):
        with pytest.raises(UnknownFormatError):
            listed(tmp_path, text, "notes.txt")
    with pytest.raises(UnknownFormatError):
        listed(tmp_path, "{}\n{}\n{}\n")


def test_list_of_usual_names_needs_no_name_of_its_own(tmp_path: Path) -> None:
    trace = listed(tmp_path, "\n".join(NAMES) + "\n", "mine.txt")

    assert names_of(trace) == list(NAMES)


def test_list_without_a_name_is_an_error(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "x.txt"
    path.write_text("{}\n")
    with pytest.raises(CorruptError):
        open_trace(path, reader_id="tensor-names")
    monkeypatch.setattr(names, "_MAX_BYTES", 2)
    with pytest.raises(LimitExceededError):
        open_trace(path, reader_id="tensor-names")


def short_records(folder: Path, numbers: list[int], pointers: list[int]) -> Path:
    """Write records of 64 bytes that name nothing but a number and an address."""
    parts = []
    for i, (number, pointer) in enumerate(zip(numbers, pointers, strict=True)):
        source = Src("", pointer, 64, NO_LAYER, 0, 0)
        raw = bytearray(encode_one(Rec(1000 + 10 * i, op=1, sources=(source,)), "64p"))
        raw[INDEX_AT : INDEX_AT + 4] = struct.pack("<I", number)
        parts.append(bytes(raw))
    path = folder / "tensor_access.bin"
    path.write_bytes(b"".join(parts))
    return path


def joined(folder: Path, numbers: list[int], lines: list[str]) -> Trace:
    # One address for each tensor; of those without a number one for each record.
    has_numbers = len(set(numbers)) > 1
    places = numbers if has_numbers else range(len(numbers))
    pointers = [0x7F00_0000_0000 + 4096 * i for i in places]
    short_records(folder, numbers, pointers)
    (folder / "tensor_names.txt").write_text("\n".join(lines) + "\n")
    return open_parts(survey([folder])).trace


def test_records_find_their_names_by_number(tmp_path: Path) -> None:
    trace = joined(tmp_path, [2, 0, 2, 1], list(NAMES))

    (join,) = trace.joins
    assert (join.kind, join.n_found, join.n_all) == ("registry", 4, 4)
    assert join.rules == {"number": 4}
    tensor = trace.accesses.patterns.tensor[trace.accesses.pattern[:4]]
    values = [names_of(trace)[row] for row in tensor.tolist()]
    assert values == [NAMES[2], NAMES[0], NAMES[2], NAMES[1]]


def test_numbers_that_were_never_set_say_nothing(tmp_path: Path) -> None:
    """The known tracers leave 0 in all records."""
    trace = joined(tmp_path, [0, 0, 0, 0], list(NAMES))

    assert trace.joins[0].n_found == 0
    assert "nothing_to_map" in codes(trace)


def test_number_beyond_the_list_finds_nothing(tmp_path: Path) -> None:
    trace = joined(tmp_path, [0, 1, 7, 9], list(NAMES))

    assert trace.joins[0].rules == {"number": 2}


def test_records_find_their_names_by_address(tmp_path: Path) -> None:
    pointers = [0x7F00_0000_0000 + 4096 * i for i in range(3)]
    lines = [f"0x{p:x} {n}" for p, n in zip(pointers, NAMES, strict=True)]
    trace = joined(tmp_path, [0, 0, 0], lines)

    assert trace.joins[0].rules == {"pointer": 3}


def test_map_of_a_numbered_trace_fits_by_the_names_of_the_list(tmp_path: Path) -> None:
    head = "tensor_name,file_offset,size_bytes,layer_id,component_type,n_dims,dim0"
    rows = [f"{n},{4096 + 64 * i},64,0,x,1,16" for i, n in enumerate(NAMES)]
    (tmp_path / "map.csv").write_text("\n".join([head, *rows]) + "\n")

    trace = joined(tmp_path, [2, 0, 2, 1], list(NAMES))

    assert [j.n_found for j in trace.joins if j.kind != "names"] == [4, 4]
    assert sorted(names_of(trace)) == sorted(NAMES)
    assert sorted(trace.tensors.offset.tolist()) == [4096, 4160, 4224]
