"""Buffer events in JSON lines, with names that break them and lines in between."""

import json
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import CorruptError
from ggscope.model.trace import Severity, Trace
from ggscope.readers.buffers.events_jsonl import BufferStatsReader
from ggscope.readers.buffers.parser import id_of, ns_of
from ggscope.readers.common.json_walk import decimal_of
from side_files import codes, confidence, read_path, read_text
from support import need_corpus

READER = BufferStatsReader()


def alloc(ms: str, buffer_id: int, size: int, name: str = "KVCache_CPU") -> str:
    """Return a line exactly as the tracer prints it."""
    return (
        f'{{"timestamp_ms":{ms},"event":"alloc","buffer_id":{buffer_id},'
        f'"buffer_ptr":0,"size":{size},"name":"{name}","backend":"CPU","usage":2,'
        '"layer":65535}\n'
    )


def free(ms: str, buffer_id: int) -> str:
    return f'{{"timestamp_ms":{ms},"event":"dealloc","buffer_id":{buffer_id}}}\n'


def read(folder: Path, *lines: str) -> Trace:
    return read_text(READER, folder, "".join(lines), "buffer_stats.jsonl")


def noted(trace: Trace) -> dict[str, int]:
    noted = codes(trace)
    noted.pop("buffers_not_recorded", None)
    return noted


def test_corpus_file_has_the_counts_of_the_index() -> None:
    index = json.loads((need_corpus() / "INDEX.json").read_text())
    (row,) = [r for r in index if r["format"] == "buffer-stats-jsonl"]

    trace = read_path(READER, need_corpus() / row["path"])

    assert trace.info.n_records == len(trace.buffers) == row["expect"]["events"]
    assert int(np.max(trace.counters[0].value)) == row["expect"]["peak"]
    assert trace.clock.origin == 541_709_309_541_000
    assert trace.buffers.allocated.tolist() == [0, 4_932_000]
    assert trace.buffers.address.tolist() == [108933962620528, 108933962603600]


def test_release_ends_its_buffer(tmp_path) -> None:
    trace = read(tmp_path, alloc("1.500", 1, 10), alloc("2.000", 2, 5), free("3.25", 1))

    assert trace.buffers.freed.tolist() == [1_750_000, -1]
    assert trace.counters[0].value.tolist() == [10.0, 15.0, 5.0]
    assert noted(trace) == {}


@pytest.mark.parametrize(
    "name", ['a "quoted" one', "back\\slash", "tab\there", "é\x01"]
)
def test_name_that_breaks_the_line_is_salvaged(tmp_path, name: str) -> None:
    trace = read(tmp_path, alloc("1.0", 1, 10, name), alloc("2.0", 2, 20))

    assert trace.strings[int(trace.buffers.name[0])] == name
    assert trace.buffers.size.tolist() == [10, 20]
    assert noted(trace) == {"repaired_line": 1}


def test_name_that_looks_like_fields_is_salvaged(tmp_path) -> None:
    name = 'x","size":3,"backend":"GPU'

    trace = read(tmp_path, alloc("1.0", 1, 10, f'{name}"'))

    assert trace.buffers.size.tolist() == [10]
    assert trace.strings[int(trace.buffers.name[0])] == f'{name}"'


def test_stray_lines_are_counted_with_their_number(tmp_path) -> None:
    lines = [
        "llama_init: ok\n",
        alloc("1.0", 1, 10),
        "\n",
        "  \n",
        "[1, 2]\n",
        free("2.0", 1),
    ]

    trace = read(tmp_path, *lines)

    assert noted(trace) == {"stray_line": 2}
    assert next(w.place for w in trace.warnings if w.code == "stray_line") == "line 1"
    assert trace.buffers.freed.tolist() == [1_000_000]


def test_cut_last_line_is_a_loss(tmp_path) -> None:
    trace = read(tmp_path, alloc("1.0", 1, 10), alloc("2.0", 2, 20)[:60])

    assert noted(trace) == {"truncated_line": 1}
    assert len(trace.buffers) == 1


@pytest.mark.parametrize("length", [3, 20, 40, 60, 100])
def test_cut_line_amid_others_is_a_loss_too(tmp_path, length: int) -> None:
    cut = alloc("2.0", 2, 20)[:length] + "\n"

    trace = read(tmp_path, alloc("1.0", 1, 10), cut, free("3.0", 1))

    (warning,) = [w for w in trace.warnings if w.code == "broken_line"]
    assert (warning.severity, warning.place) == (Severity.DATA_LOSS, "line 2")
    assert len(trace.buffers) == 1


def test_event_that_lost_its_id_is_a_loss(tmp_path) -> None:
    trace = read(
        tmp_path, alloc("1.0", 1, 10), '{"timestamp_ms":2.0,"event":"dealloc"}\n'
    )

    assert noted(trace) == {"bad_event": 1}


@pytest.mark.parametrize("line", ["{", "{}", '{"level":"info"}', '{"a" 1}'])
def test_other_objects_are_no_events(tmp_path, line: str) -> None:
    trace = read(tmp_path, alloc("1.0", 1, 10), f"{line}\n", free("3.0", 1))

    assert noted(trace) == ({"broken_line": 1} if line == "{" else {"stray_line": 1})


def test_events_without_time_id_or_kind_are_left_out(tmp_path) -> None:
    lines = [
        '{"timestamp_ms":null,"event":"alloc","buffer_id":1}\n',
        '{"timestamp_ms":1,"event":"alloc","buffer_id":-1e5}\n',
        '{"timestamp_ms":1,"event":"resize","buffer_id":1}\n',
        '{"timestamp_ms":-1,"event":"alloc","buffer_id":1}\n',
        alloc("1.0", 5, 10),
    ]

    trace = read(tmp_path, *lines)

    assert noted(trace) == {"bad_event": 4}
    assert trace.info.n_records == 5
    (note,) = [w for w in trace.warnings if w.code == "bad_event"]
    assert note.place == "line 1"


def test_id_as_text_or_negative_is_the_same_64_bits() -> None:
    assert id_of("0x10") == id_of(16) == id_of("16") == 16
    assert id_of(-1) == (1 << 64) - 1
    assert id_of(1 << 64) is None
    assert id_of(True) is None
    assert id_of("x") is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [("541709309.541", 541_709_309_541_000), ("4503599627370.497", 4503599627370497000),
     ("0.0000005", 0), ("1e3", 1_000_000_000), ("2", 2_000_000), ("-0.1", None),
     ("1e400000", None), ("9999999999999", None)],
)  # fmt: skip
def test_time_keeps_every_digit(text: str, ns: int | None) -> None:
    assert ns_of(decimal_of(text)) == ns


def test_file_without_any_event_is_an_error(tmp_path) -> None:
    with pytest.raises(CorruptError, match="no buffer events"):
        read(tmp_path, "hello\n", "world\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [(alloc("1.0", 1, 2), 90), ("banner\n" + free("1.0", 1), 60),
     (alloc("1.0", 1, 2, 'a "b"'), 90), ('{"type": "TOKEN_EVENT"}\n', 0),
     ('{"buffers": [], "timeline": [{"event": "alloc", "buffer_id": 3}]}', 0),
     ("", 0), ("{", 0)],
)  # fmt: skip
def test_sniff_looks_at_the_keys_of_a_line(text: str, expected: int) -> None:
    assert confidence(READER, text, "x.jsonl") == expected
