"""The format of the ring: what C compiles is what Python reads."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ggscope_capture import ring, ring_format
from ggscope_capture.ring_format import (
    FRAMES,
    RING_BYTE_ORDER,
    RING_MAGIC,
    RING_PAGE,
    RING_VERSION,
    STRUCTS,
    U32,
    U64,
    Frame,
    FrameFormat,
    FrameType,
    RingFlag,
    frames,
    pack,
    size_of,
    unpack,
)

HEADER = Path(ring.__file__).parent / "native" / "ring.h"
TEXT = HEADER.read_text()
_STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};?", re.M | re.S)
_FIELD = re.compile(r"^\s+(?:\w+) (\w+)(?:\[\w+\])?;", re.M)
_ENUM = re.compile(r"^enum (\w+) \{\s(.*?)\};", re.M | re.S)
_FRAME = re.compile(r"^\s+([A-Z_]+) = \d+, *// (.*)", re.M)
# The enumerations of the header: their twins, and what their names begin with there.
ENUMS: dict[str, tuple[type[IntEnum | IntFlag], str]] = {
    "ring_flags": (RingFlag, "RING_"),
    "ring_state": (ring_format.RingState, "RING_"),
    "ring_mode": (ring_format.Mode, "MODE_"),
    "ring_door": (ring_format.AttachMethod, "DOOR_"),
    "ring_clock": (ring_format.Clock, "CLOCK_"),
    "lane_state": (ring_format.LaneState, "LANE_"),
    "frame_type": (FrameType, "(?:FRAME|DEF|EVENT)_"),
    "tensor_flags": (ring_format.TensorFlag, "TENSOR_"),
    "check_result": (ring_format.CheckResult, "CHECK_"),
    "tensor_column": (ring_format.TensorColumn, "COLUMN_"),
    "graph_phase": (ring_format.Phase, "PHASE_"),
    "ubatch_knowledge": (ring_format.Knowledge, "KNOWS_"),
    "host_kind": (ring_format.HostCall, "HOST_"),
}
# Those whose members are constants of the same names in Python.
CONSTANTS = ("record_bits", "row_bits")
# What differs in Python: a buffer has a definition and an event.
RENAMED = {"EVENT_BUFFER": "EVENT_BUFFER_EVENT", "N_COLUMNS": "N_TENSOR_COLUMNS"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes and places as the compiler of this machine lays them out."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    folder = tmp_path_factory.mktemp("layout")
    lines = []
    for name, body in _STRUCT.findall(TEXT):
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        lines += [
            f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));'
            for field in _FIELD.findall(body)
        ]
    source = folder / "layout.c"
    body = "".join(lines)
    source.write_text(
        f'#include "{HEADER}"\n#include <stdio.h>\nint main(void) {{ {body} }}'
    )
    program = folder / "layout"
    subprocess.run([compiler, "-std=c11", source, "-o", program], check=True)
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in map(str.split, out.splitlines())}


def test_structs_have_the_places_that_the_compiler_gives(
    compiled: dict[str, int],
) -> None:
    python = {}
    for name, dtype in ring.DTYPES.items():
        python[name] = dtype.itemsize
        assert dtype.fields is not None
        for field, (_, offset, *_rest) in dtype.fields.items():
            python[f"{name}.{field}"] = offset

    assert python == compiled
    assert {name: size_of(kind) for name, kind in STRUCTS.items()} == {
        name: n_bytes for name, n_bytes in compiled.items() if "." not in name
    }


@pytest.mark.parametrize("name", [name for name, _ in _ENUM.findall(TEXT)])
def test_enumerations_have_the_numbers_of_the_header(name: str) -> None:
    members = dict(enum_members(name))
    assert members

    if name in CONSTANTS:
        assert {member: getattr(ring_format, member) for member in members} == members
        return
    if n_columns := members.pop("N_TENSOR_COLUMNS", None):
        assert n_columns == ring_format.N_TENSOR_COLUMNS
    kind, prefix = ENUMS[name]
    bare = {re.sub(f"^{prefix}", "", key): value for key, value in members.items()}
    assert {member.name: member.value for member in kind} == bare


def test_macros_have_the_values_of_the_header() -> None:
    macros = dict(re.findall(r"^#define ([A-Z]\w+) (\S+)", TEXT, re.M))
    assert macros

    for name, raw in macros.items():
        value = getattr(ring_format, name)
        if isinstance(value, int):
            assert value == int(raw.rstrip("ul"), 0), name
        else:
            text = value.decode() if isinstance(value, bytes) else value
            assert text == raw.strip('"'), name


def enum_members(name: str) -> Iterator[tuple[str, int]]:
    body = re.sub("//.*", "", dict(_ENUM.findall(TEXT))[name])
    for part in body.split(","):
        if part.strip():
            member, value = part.split("=")
            member = member.strip()
            yield RENAMED.get(member, member), eval(value.replace("u", ""))


def described_frames() -> Iterator[tuple[FrameType, str]]:
    """Yield each frame of the header but the pad, with its comment."""
    for name, comment in _FRAME.findall(dict(_ENUM.findall(TEXT))["frame_type"]):
        bare = re.sub("^(DEF|EVENT)_", "", RENAMED.get(name, name))
        yield FrameType[bare], comment


def test_frames_hold_what_the_header_says() -> None:
    for kind, comment in described_frames():
        body, _, texts = comment.partition("; text")
        if struct := re.match(r"struct (\w+)", body):
            assert FRAMES[kind].body is STRUCTS[struct[1]], kind
        else:
            codes = {"u16": "<u2", "u32": "<u4", "u64": "<u8"}
            stated = [codes[code] for code in re.findall(r"\bu(?:16|32|64)\b", body)]
            assert [code for _, code in ring_format.fields(FRAMES[kind].body)] == stated
        n_texts = texts.split(":")[0].count(",") + 1 if texts else 0
        assert FRAMES[kind].n_texts == n_texts, kind
    assert {kind for kind, _ in described_frames()} == {*FRAMES}
    assert {*FRAMES} == {*FrameType} - {FrameType.PAD}


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_are_unpacked_as_they_were_packed(name: str) -> None:
    kind, dtype = STRUCTS[name], ring.DTYPES[name]
    raw = bytes(i % 251 + 1 for i in range(dtype.itemsize))

    value = unpack(kind, raw)
    row = np.frombuffer(raw, dtype)[0]

    assert pack(value) == raw
    for field, item in zip(dtype.names or (), value, strict=True):
        expected = row[field]
        assert item == (tuple(expected) if expected.ndim else expected.item()), field
    with pytest.raises(ring_format.RingError, match="is cut"):
        unpack(kind, raw[:-1])


class _EventPage(NamedTuple):
    """A template of a frame: pages that the system read for the program."""

    tid: U32
    reserved: U32
    address: U64


def test_a_new_frame_is_a_struct_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    page = _EventPage(7, 0, 0x7000)
    frame = Frame(99, 5, pack(page) + b"\3\0abc\0\0\0")
    assert frame.is_whole()  # unknown to this version: passed over

    monkeypatch.setitem(FRAMES, 99, FrameFormat(_EventPage, 1))
    (read,) = [each for each, _ in frames(frame.packed())]

    assert read == frame
    assert read is not None
    assert unpack(_EventPage, read.body) == page
    assert read.texts() == ("abc",)
    assert read.is_whole()
    assert not Frame(99, 5, frame.body[:12]).is_whole()


def test_frames_that_are_cut_or_senseless_end_the_walk() -> None:
    whole = np.array([(24, 2, 0, 5)], ring.DTYPES["ring_frame"]).tobytes() + bytes(8)
    pad = np.array([8, 0], "<u4").tobytes()

    walked = list(frames(pad + whole + whole[:20]))
    none = list(frames(b"\x03\0\0\0\0\0\0\0" + whole))

    assert [(f.type, f.time) if f else None for f, _ in walked] == [None, (2, 5)]
    assert walked[-1][1] == len(pad + whole)
    assert none == []


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("magic", b"GGSRING9", "not a ring"),
        ("version", 9, "version 9"),
        ("byte_order", 0x04030201, "order of bytes"),
        ("lane_capacity", 1000, "do not fit"),
        ("records_offset", 1 << 40, "do not fit"),
        ("n_lanes", 0, "do not fit"),
    ],
)
def test_rings_that_cannot_be_are_refused(
    field: str, value: object, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    page = empty_control()
    page[field] = value
    path.write_bytes(page.tobytes() + bytes(1 << 20))

    with pytest.raises(ring_format.RingError, match=why):
        ring.Ring(path)


def empty_control() -> np.ndarray:
    page = np.zeros(1, ring.CONTROL)
    page["magic"], page["version"] = RING_MAGIC, RING_VERSION
    page["byte_order"], page["header_size"] = (
        RING_BYTE_ORDER,
        RING_PAGE,
    )
    page["record_size"], page["lane_size"] = 32, 256
    page["n_lanes"], page["lanes_offset"], page["lane_capacity"] = 2, 4096, 64
    page["records_offset"], page["events_offset"] = 8192, 16384
    page["events_capacity"], page["flags"] = 4096, RingFlag.OVERWRITE
    return page


def test_overwritten_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    path.write_bytes(empty_control().tobytes() + bytes(1 << 17))

    with ring.Ring(path) as read:
        read.lanes["state"][0] = 1
        read.lanes["head"][0] = 30
        first = read.records()
        read.lanes["head"][0] = 200
        second = read.records()
        lost, tail = int(read.lost[0]), int(read.lanes["tail"][0])

    assert len(first[0]) == 30
    # One of the 64 may be under the writer's hand.
    assert len(second[0]) == 63
    assert lost == 200 - 30 - 63
    assert tail == 200
