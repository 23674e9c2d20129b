"""The compiled scan of NPU events and samples against its twin, the rules."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracles
from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import StringTable
from ggscope.readers.common.json_cursor import JsonCursor, cut_array
from ggscope.readers.common.json_text import JsonSyntaxError, MemoryText
from ggscope.readers.npu.columns import EventColumns
from ggscope.readers.npu.scan import (
    ODD,
    SAMPLE,
    STUB,
    ScannedBlock,
    Scanner,
    scanner,
)
from ggscope.readers.npu.schema import Problems, Rules
from npu_files import (
    access,
    as_lines,
    command,
    comparable,
    document,
    engine,
    marker,
    read_text,
    sample,
    stall,
    token,
)
from support import need_corpus

EVENTS_OF_EVERY_KIND = [
    engine(100, 250, color_hint="#fff", deps=[3, -1]),
    engine(110, 120, layer_id=None, tile_id="", op=None, color_hint="nothing"),
    engine(110, 120, engine="HOST", engine_id=7, tile_id=None, layer_id="l12"),
    access(110),
    access(120, mem_type="SPM", direction="write", addr=None, source_engine=None),
    token(100, 900, phase="PREFILL"),
    stall(120, 130),
    stall(130, 140, master="BUS", reason=None),
    command(90, "START"),
    command(95, "END", phase="", source=None, cmd_id=-1),
    marker(880, details={"a": {"b": [1, "}{", None, True, 1.5e-7]}, "e": []}),
    {"type": "BUS_EVENT", "cycle": 8},
]
REVERSED = engine(5, 2)
ODD_EVENTS = [
    {"type": "FOO_EVENT", "cycle": 4},
    {"cycle": 1},
    {},
    engine("30", 40),
    REVERSED,
    engine(10, 20, engine="GPU"),
    engine(10.0, 20),
    engine(10, 20, deps=[1, "2"]),
    engine(10, 20, deps=7),
    engine(-1, 20),
    engine(1 << 62, 1 << 63),
    access(-3, direction="both"),
    access(1, addr=(1 << 63) - 1),
    access(1, addr=1 << 64),
    engine(1, 2, tile_id='a"b\\'),
    engine(1, 2, tile_id="Schicht-ä-層-😀", op="µ"),
    engine(1, 2, tile_id="\ud800"),
    {"type": 5},
]


def outcome(folder: Path, data: bytes, name: str, **options: str) -> object:
    """Return all that is made of a text: a trace's content or an error."""
    try:
        trace = read_text(folder, data, name=name, block_bytes=700, **options)
    except ReadError as error:
        return type(error), error.message, error.offset
    outcome = comparable(trace)
    # An odd event's op is numbered after those of its block, or where it stands.
    names, spans = outcome["ops"], outcome["spans"]
    if names is not None and spans["op"] is not None:
        spans["op"] = [names[op] if op >= 0 else None for op in spans["op"]]
        outcome["ops"] = sorted(names)
    return outcome


def assert_twins_agree(folder: Path, data: bytes, name: str, **options: str) -> None:
    """Read a text with and without the kernel."""
    with_kernel = outcome(folder, data, name, **options)
    with pytest.MonkeyPatch.context() as patch:
        oracles.npu(patch)
        assert outcome(folder, data, name, **options) == with_kernel


def kinds_of(cut: Callable[..., Any], data: bytes, *rest: object) -> list[int]:
    """Return the kinds of the rows that the kernel makes of a text."""
    try:
        block = cut(np.frombuffer(b" " + data + b" ", np.uint8).copy(), 0, *rest)
    except JsonSyntaxError:
        return []
    block = block[0] if isinstance(block, tuple) else block
    return block.rows["kind"].tolist() if isinstance(block, ScannedBlock) else []


def scanned(data: bytes) -> list[int]:
    return kinds_of(Scanner().cut_events, data, True)


def test_usual_events_need_no_second_look() -> None:
    data = json.dumps(EVENTS_OF_EVERY_KIND)[1:].encode()

    assert scanned(data) == [0, 0, 0, 1, 1, 2, 3, 3, 4, 4, STUB, STUB]


def test_usual_lines_need_no_second_look() -> None:
    data = as_lines(*EVENTS_OF_EVERY_KIND).encode()

    for text, at_end, n in ((data, 0, 0), (data[:-1], 1, 0), (data[:-1], 0, 1)):
        kinds = kinds_of(Scanner().cut_lines, text, at_end, 1)
        assert len(kinds) == len(EVENTS_OF_EVERY_KIND) - n


@pytest.mark.parametrize("event", [e for e in ODD_EVENTS if e is not REVERSED])
def test_odd_events_get_one(event: object) -> None:
    kinds = scanned(json.dumps(event).encode() + b"]")

    assert kinds in ([], [ODD])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 01}',
        '{"a": -}',
        '{"a": 1.}',
        '{"a": .5}',
        '{"a": 1e}',
        '{"a": 1e400}',
        '{"a": +1}',
        '{"a": tru}',
        '{"a": nul}',
        '{"a": NaN}',
        '{"a" 1}',
        '{"a": 1,}',
        '{"a": [1,]}',
        '{"a": [1 2]}',
        '{"a": [}]}',
        '{"a": {"b"}}',
        '{"a": {"b": }}',
        '{"a": {,}}',
        "{a: 1}",
        "{'a': 1}",
        '{"a": "\\x"}',
        '{"a": "\\u12g4"}',
        '{"a": "\\ud800"}',
        '{"a": "\t"}',
        '{"type": "BUS_EVENT", "type": "BUS_EVENT"}',
        '{"\\u0074ype": "BUS_EVENT"}',
        '{"a": ' + "[" * 61 + "]" * 61 + "}",
        "[]",
        "1",
        ",",
        "{} {}",
        "",
    ],
)
def test_doubtful_text_is_left_to_the_twin(text: str) -> None:
    assert scanned(text.encode() + b"]") in ([], [ODD])
    assert scanned(text.encode() + b" x]") in ([], [ODD])


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xc3",
        b"\xe2\x82",
    ],
)
def test_text_that_is_not_utf8_is_left_to_the_twin(raw: bytes) -> None:
    assert scanned(b'{"type": "BUS_EVENT", "a": "' + raw + b'      "}]') == []


def test_characters_of_every_length_are_utf8() -> None:
    text = "\u007f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"

    assert scanned(f'{{"type": "BUS_EVENT", "a": "{text}"}}]'.encode()) == [STUB]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("strict", ["", "true"])
def test_every_cut_gives_what_the_twin_gives(
    tmp_path: Path, ascii_only: bool, strict: str
) -> None:
    events = [*EVENTS_OF_EVERY_KIND[:4], *ODD_EVENTS[:2], engine(1, 2, tile_id="ä層")]
    text = json.dumps(document(*events), ensure_ascii=ascii_only).encode()

    for cut in range(30, len(text), 7):
        assert_twins_agree(tmp_path, text[:cut], "t.json", strict=strict)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.integers(-(2**66), 2**66)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["TE", "read", "START", "DECODE", "#fff", "7"])
    | st.lists(st.integers(-2, 9), max_size=3)
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "bytes",
                "qbits",
                "qbits_weight",
                "qbits_activation",
                "spm_bank",
                "spm_offset",
                "other",
            ]
        ),
        SCALARS | st.dictionaries(st.just("bytes"), st.integers(0, 9), max_size=1),
    )
    | SCALARS
)
@settings(max_examples=200)
def test_details_of_any_type_give_what_the_twin_gives(
    tmp_path_factory: pytest.TempPathFactory, details: object
) -> None:
    events = [engine(0, 9, details=details), engine(1, 9, details={"qbits": 8})]
    data = json.dumps(document(*events)).encode("utf-8", "surrogatepass")

    assert_twins_agree(tmp_path_factory.getbasetemp(), data, "t.json")


def test_details_are_columns_of_spans(tmp_path: Path) -> None:
    events = [
        engine(0, 1, details={"bytes": 2048, "qbits": 4, "spm_bank": 2}),
        engine(1, 2, details={"qbits_activation": 8, "qbits_weight": 4, "qbits": 2}),
        engine(2, 3, details={"qbits_activation": 8, "spm_offset": 8192, "bytes": 0}),
        engine(3, 4, details={"qbits": 200, "bytes": -1, "spm_bank": "2"}),
    ]

    spans = read_text(tmp_path, json.dumps(document(*events))).spans

    assert spans.moved.tolist() == [2048, -1, 0, -1]
    assert spans.bits.tolist() == [4, 4, 8, -1]
    assert spans.bank.tolist() == [2, -1, -1, -1]
    assert spans.bank_offset.tolist() == [-1, -1, 8192, -1]


def test_details_without_any_of_them_make_no_columns(tmp_path: Path) -> None:
    spans = read_text(tmp_path, json.dumps(document(engine(0, 1)))).spans

    assert spans.moved is spans.bits is spans.bank is spans.bank_offset is None


FIELDS = sorted({key for event in EVENTS_OF_EVERY_KIND for key in event})
SAMPLES = [
    sample(0),
    sample(64, kv_bytes=0, stall_cycles=7),
    sample(128, dram_read_bytes=None),
    {"cycle": 192, "window_cycles": 64},
]
ODD_SAMPLES = [
    sample(0, dram_read_bytes=0.5),
    sample(0, dram_read_bytes="12"),
    sample(0, dram_write_bytes=-1),
    sample(0, kv_bytes=10**18),
    sample(0, kv_bytes=1e300),
    sample(0, stall_cycles=True),
    sample(0, window_cycles=0),
    sample(0, window_cycles=-5),
    sample(0, window_cycles=None),
    sample(-1),
    sample(1.0),
    sample(1 << 62),
    {},
    [],
    7,
    None,
]


def kinds_of_samples(values: list[object]) -> list[int]:
    return kinds_of(Scanner().cut_samples, json.dumps(values)[1:].encode(), True)


def test_usual_samples_need_no_second_look() -> None:
    assert kinds_of_samples(list(SAMPLES)) == [SAMPLE] * len(SAMPLES)


@pytest.mark.parametrize("value", ODD_SAMPLES)
def test_odd_samples_get_one(value: object) -> None:
    assert kinds_of_samples([value]) in ([], [ODD])


@pytest.mark.parametrize("value", ODD_SAMPLES)
def test_odd_samples_among_others_give_what_the_twin_gives(
    tmp_path: Path, value: object
) -> None:
    samples = [*SAMPLES, value, sample(256), value]
    values = document(engine(0, 300), bandwidth_samples=samples)
    lines = [engine(0, 300), *(s for s in samples if isinstance(s, dict))]

    assert_twins_agree(tmp_path, json.dumps(values).encode(), "t.json")
    assert_twins_agree(tmp_path, as_lines(*lines).encode(), "t.jsonl")


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(SAMPLES[1])), SCALARS, max_size=2),
        max_size=5,
    )
)
@example([{"dram_read_bytes": 9e307}] * 2)
@example([{"kv_bytes": 9e307}] * 2)
@settings(max_examples=50)
def test_samples_of_any_type_give_what_the_twin_gives(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[str, object]]
) -> None:
    samples = [sample(64 * i) | change for i, change in enumerate(changes)]
    data = json.dumps(document(engine(0, 9), bandwidth_samples=samples)).encode()

    assert_twins_agree(tmp_path_factory.getbasetemp(), data, "t.json")


@pytest.mark.parametrize("part", ["0:3", "2:9", "3:4", "7:1000", "11:12"])
def test_parts_give_what_the_twin_gives(tmp_path: Path, part: str) -> None:
    events = [*EVENTS_OF_EVERY_KIND, *ODD_EVENTS, *EVENTS_OF_EVERY_KIND]

    data = json.dumps(document(*events)).encode()
    assert_twins_agree(tmp_path, data, "t.json", range=part)
    data = as_lines(*EVENTS_OF_EVERY_KIND).encode()
    assert_twins_agree(tmp_path, data, "t.jsonl", range=part)


@pytest.mark.parametrize("form", ["array", "lines"])
def test_doubtful_event_keeps_only_a_stretch_from_the_scan(form: str) -> None:
    usual = json.dumps(engine(1, 2))
    doubtful = '{"type": "BUS_EVENT", "type": "BUS_EVENT", "cycle": 1}'
    texts = [doubtful, *[usual] * 3000]
    cutter = Scanner()
    if form == "array":
        cursor = JsonCursor(MemoryText(f"[{','.join(texts)}]".encode()))
        blocks = list(cursor.blocks(cutter.cut_events))
    else:
        cursor = JsonCursor(MemoryText("\n".join(texts).encode()))
        blocks = list(cursor.lines(cutter.cut_lines))

    n_left = sum(len(b.start) for b in blocks if not isinstance(b, ScannedBlock))

    assert sum(len(b.start) for b in blocks) == 3001
    assert 1 <= n_left < 400


@pytest.mark.parametrize("event", ODD_EVENTS)
def test_odd_events_among_others_give_what_the_twin_gives(
    tmp_path: Path, event: object
) -> None:
    events = [*EVENTS_OF_EVERY_KIND, event, engine(5, 9), event, access(3)]

    assert_twins_agree(tmp_path, json.dumps(document(*events)).encode(), "t.json")
    assert_twins_agree(tmp_path, as_lines(*events).encode(), "t.jsonl")


def test_corpus_files_give_what_the_twin_gives(tmp_path: Path) -> None:
    files = sorted((need_corpus() / "npu").glob("*.json*"))
    assert files

    for file in files:
        for strict in ("", "true"):
            assert_twins_agree(
                tmp_path, file.read_bytes(), "t" + file.suffix, strict=strict
            )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(EVENTS_OF_EVERY_KIND),
            st.dictionaries(st.sampled_from(FIELDS), SCALARS, max_size=3),
        ),
        max_size=6,
    ),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=100)
def test_fields_of_any_type_give_what_the_twin_gives(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[dict[str, object], dict[str, object]]],
    ascii_only: bool,
    lines: bool,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    changed = [event | changes for event, changes in events]
    parts = [json.dumps(event, ensure_ascii=ascii_only) for event in changed]
    text = "\n".join(parts) if lines else f'{{"timeline_events": [{",".join(parts)}]}}'

    data = text.encode("utf-8", "surrogatepass") or b" "

    assert_twins_agree(folder, data, "t.jsonl" if lines else "t.json")


GOLDEN = json.dumps(document(*EVENTS_OF_EVERY_KIND)).encode()


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(GOLDEN) - 1),
            st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b"}", b",", b" ]"]),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=100)
def test_random_damage_gives_what_the_twin_gives(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]]
) -> None:
    data = bytearray(GOLDEN)
    for at, replacement in edits:
        data[at : at + 1] = replacement

    folder = tmp_path_factory.getbasetemp()
    assert_twins_agree(folder, bytes(data) or b" ", "t.json", strict="true")


@pytest.mark.parametrize("capacity", [(1, 5, 300), (3, 9, 400), (50, 60, 4000)])
def test_little_room_gives_the_same_columns(capacity: tuple[int, int, int]) -> None:
    events = [
        event | ({"tile_id": f"tile {i}"} if "tile_id" in event else {})
        for i in range(8)
        for event in EVENTS_OF_EVERY_KIND[:-2]
    ]
    text = json.dumps(events).encode()
    n_rows, n_texts, n_bytes = capacity
    small = Scanner(n_rows=n_rows, n_texts=n_texts, n_bytes=n_bytes)
    columns = EventColumns(StringTable(), small.texts)
    rules = Rules(Problems(TraceBuilder()))
    n_records = n_scanned = 0

    for block in JsonCursor(MemoryText(text), block_bytes=999).blocks(small.cut_events):
        n = len(block.start)
        record = np.arange(n_records, n_records + n)
        if isinstance(block, ScannedBlock):
            odd = np.flatnonzero(block.rows["kind"] >= STUB)
            others = [rules.event(events[n_records + i]) for i in odd.tolist()]
            columns.add_rows(block.rows, n_records, others, odd)
            n_scanned += n - len(odd)
        else:
            columns.add([rules.event(events[i]) for i in record.tolist()], record)
        n_records += n

    expected = EventColumns(StringTable(), scanner(len(text)).texts)
    expected.add([rules.event(event) for event in events], np.arange(len(events)))
    assert n_records == len(events)
    assert n_scanned > 0
    for mine, twin in zip(columns.tables, expected.tables, strict=True):
        assert len(mine) == len(twin)
        for name in ("record", "start", "end", "time", "cmdq", "layer", "dep", "color"):
            if name in twin.names:
                assert mine.column(name).tolist() == twin.column(name).tolist()


def test_bounds_are_those_of_the_elements() -> None:
    data = b" " + json.dumps(EVENTS_OF_EVERY_KIND, indent=1)[1:].encode() + b" "
    buffer = np.frombuffer(data, np.uint8).copy()

    block, twin = (
        scanner(len(data)).cut_events(buffer, 0, True),
        cut_array(buffer, 0, True),
    )

    assert isinstance(block, ScannedBlock)
    assert block.start.tolist() == twin.start.tolist()
    assert block.end.tolist() == twin.end.tolist()
    assert (block.last, block.length) == (twin.last, twin.length)
    assert block.data[block.length] == ord("]")
