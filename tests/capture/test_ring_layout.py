"""The layout of the ring: what C compiles is what Python reads."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ggscope_capture import ring

HEADER = Path(ring.__file__).parent / "native" / "ring.h"
_STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.M | re.S)
_FIELD = re.compile(r"^\s+(?:\w+) (\w+)(?:\[\w+\])?;", re.M)
_ENUM_VALUE = re.compile(r"^\s+([A-Z][A-Z_]+) = ([^,]+?),", re.M)
# Names of the header beside those of the Python enumerations.
_PREFIX = {
    "RING_": ring.State,
    "MODE_": ring.Mode,
    "DOOR_": ring.AttachMethod,
    "CLOCK_": ring.Clock,
    "FRAME_": ring.Frame,
    "DEF_": ring.Frame,
    "EVENT_": ring.Frame,
    "TENSOR_": ring.TensorFlag,
    "HOST_": ring.Host,
    "PHASE_": ring.Phase,
    "KNOWS_": ring.Knowledge,
    "COLUMN_": ring.TensorColumn,
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes and places as the compiler of this machine lays them out."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    folder = tmp_path_factory.mktemp("layout")
    lines = []
    for name, body in _STRUCT.findall(HEADER.read_text()):
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
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in map(str.split, told.splitlines())}


def test_python_knows_the_places_that_the_compiler_gives(
    compiled: dict[str, int],
) -> None:
    python = {}
    for name, dtype in ring.STRUCTS.items():
        python[name] = dtype.itemsize
        assert dtype.fields is not None
        for field, (_, offset, *_rest) in dtype.fields.items():
            python[f"{name}.{field}"] = offset

    assert python == compiled


def test_python_knows_the_numbers_of_the_header() -> None:
    text = HEADER.read_text()
    found = 0
    for name, value in _ENUM_VALUE.findall(text):
        number = eval(value.replace("u", ""))
        if hasattr(ring, name):
            assert getattr(ring, name) == number, name
            found += 1
            continue
        for prefix, kind in _PREFIX.items():
            rest = name.removeprefix(prefix)
            if name == "EVENT_BUFFER":
                rest = "BUFFER_EVENT"
            if rest != name and rest in kind.__members__:
                assert kind[rest] == number, name
                found += 1
                break
    known = sum(len(kind) for kind in set(_PREFIX.values()))
    assert found >= known


def test_frames_that_are_cut_or_senseless_end_the_walk() -> None:
    whole = np.array([(24, 2, 0, 5)], ring.STRUCTS["ring_frame"]).tobytes() + bytes(8)
    pad = np.array([8, 0], "<u4").tobytes()

    events = [event for event, _ in ring.frames(pad + whole + whole[:20])]
    none = list(ring.frames(b"\x03\0\0\0\0\0\0\0" + whole))

    assert [(event.type, event.time) for event in events] == [(2, 5)]
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

    with pytest.raises(ring.RingError, match=why):
        ring.Ring(path)


def empty_control() -> np.ndarray:
    page = np.zeros(1, ring.CONTROL)
    page["magic"], page["version"] = ring.RING_MAGIC, ring.RING_VERSION
    page["byte_order"], page["header_size"] = ring.RING_BYTE_ORDER, ring.RING_PAGE
    page["record_size"], page["lane_size"] = 32, 256
    page["n_lanes"], page["lanes_offset"], page["lane_capacity"] = 2, 4096, 64
    page["records_offset"], page["events_offset"] = 8192, 16384
    page["events_capacity"], page["flags"] = 4096, ring.RING_OVERWRITE
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
