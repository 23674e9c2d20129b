"""NPU traces: every rule of the format gives one warning or one error."""

import json
import threading
from pathlib import Path

import pytest

import oracles
from ggscope.errors import (
    Cancelled,
    CorruptError,
    LimitExceededError,
    ReadError,
    TruncatedError,
    UnsupportedVersionError,
)
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import HEAD_BYTES, Head, ReadContext
from ggscope.readers.npu import reader
from ggscope.readers.npu.reader import NpuJsonReader
from ggscope.readers.npu.schema import text_of
from ggscope.readers.source import Source
from npu_files import (
    access,
    as_lines,
    command,
    comparable,
    document,
    engine,
    marker,
    only_warning,
    read_events,
    read_text,
    sample,
    spans_on,
    stall,
    token,
    without,
)
from support import need_corpus

NOTICE, LOSS, BROKEN = Severity.NOTICE, Severity.DATA_LOSS, Severity.ERROR


def corpus_cases() -> list[str]:
    """Return the names of all files, also where the corpus is absent."""
    from support import corpus_path

    folder = corpus_path()
    if folder is None:
        return ["events.jsonl"]
    return sorted(json.loads((folder / "npu" / "index.json").read_text()))


@pytest.mark.parametrize("name", corpus_cases())
def test_corpus_file_gives_exactly_what_its_index_says(name: str) -> None:
    folder = need_corpus() / "npu"
    expected = json.loads((folder / "index.json").read_text())[name]
    messages = expected.get("messages", [])
    with Source(folder / name) as source:
        sniffed = NpuJsonReader().sniff(
            Head(name, source.size, source.head(HEAD_BYTES))
        )
        if expected["verdict"] == "error":
            with pytest.raises(ReadError) as caught:
                NpuJsonReader().read(source, ReadContext(options={"strict": "true"}))
            assert messages[0] in caught.value.message
            assert sniffed.confidence >= 50
            return
        trace = NpuJsonReader().read(source, ReadContext())

    assert trace.check() == []
    assert sniffed.confidence == 90
    broken = [w for w in trace.warnings if w.severity == BROKEN]
    assert len(broken) == len(messages)
    for warning, message in zip(broken, messages, strict=True):
        assert message in warning.message
        assert warning.count == 1
    # The files of the corpus state figures that their events do not make.
    assert {w.code for w in trace.warnings} - {w.code for w in broken} <= {
        "stated_figures",
        "bandwidth_high",
    }
    if "events" in expected:
        assert trace.info.n_records == expected["events"]
    if "max_end_cycle" in expected:
        assert int(trace.spans.end.max()) + trace.clock.origin == 7780
    if "bandwidth_samples" in expected:
        assert len(trace.counters[0]) == expected["bandwidth_samples"]


def test_corpus_lines_equal_the_object_form() -> None:
    folder = need_corpus() / "npu"
    items = []
    for name in ("valid_1_llm_all_event_types.json", "events.jsonl"):
        with Source(folder / name) as source:
            part = comparable(NpuJsonReader().read(source, ReadContext()))
        items.append(
            {key: part[key] for key in ("span_names", "flows", "ops", "n_records")}
        )

    assert items[0] == items[1]


@pytest.mark.parametrize(
    ("event", "severity", "code", "text", "field"),
    [
        (42, BROKEN, "event_not_object", "event 1 is not an object", ""),
        ([], BROKEN, "event_not_object", "event 1 is not an object", ""),
        ({}, BROKEN, "event_without_type", "event 1 has no type", ".type"),
        ({"type": 5}, BROKEN, "event_without_type", "not a string", ".type"),
        (
            without(engine(), "start_cycle"),
            BROKEN,
            "cycle_missing",
            "event 1: start_cycle missing",
            ".start_cycle",
        ),
        (
            engine(0, None),
            BROKEN,
            "cycle_missing",
            "event 1: end_cycle missing",
            ".end_cycle",
        ),
        (
            without(marker(1), "cycle"),
            BROKEN,
            "cycle_missing",
            "event 1: cycle missing",
            ".cycle",
        ),
        (command(None, "START"), BROKEN, "cycle_missing", "cycle missing", ".cycle"),
        (access(None), BROKEN, "cycle_missing", "cycle missing", ".cycle"),
        (
            token(None, 1),
            BROKEN,
            "cycle_missing",
            "start_cycle missing",
            ".start_cycle",
        ),
        (
            stall(None, 1),
            BROKEN,
            "cycle_missing",
            "start_cycle missing",
            ".start_cycle",
        ),
        ({"type": "BUS_EVENT"}, BROKEN, "cycle_missing", "cycle missing", ".cycle"),
        (
            engine(10, 9),
            BROKEN,
            "end_before_start",
            "event 1: end_cycle is before",
            ".end_cycle",
        ),
        (
            token(10, 9),
            BROKEN,
            "end_before_start",
            "event 1: end_cycle is before",
            ".end_cycle",
        ),
        (
            stall(10, 9),
            BROKEN,
            "end_before_start",
            "event 1: end_cycle is before",
            ".end_cycle",
        ),
        (
            engine("soon"),
            BROKEN,
            "cycle_unusable",
            "start_cycle is not a number",
            ".start_cycle",
        ),
        (
            engine(True),
            BROKEN,
            "cycle_unusable",
            "start_cycle is not a number",
            ".start_cycle",
        ),
        (
            engine(0, 10**19),
            BROKEN,
            "cycle_unusable",
            "end_cycle is out of range",
            ".end_cycle",
        ),
        (
            engine(-(10**30)),
            BROKEN,
            "cycle_unusable",
            "is out of range",
            ".start_cycle",
        ),
        (marker(10**60), BROKEN, "cycle_unusable", "cycle is out of range", ".cycle"),
        (
            engine(-5),
            BROKEN,
            "negative_start_cycle",
            "event 1: negative start_cycle",
            ".start_cycle",
        ),
        (access(-1), BROKEN, "negative_cycle", "event 1: negative cycle", ".cycle"),
        (
            engine("0"),
            NOTICE,
            "number_as_text",
            "start_cycle is a string",
            ".start_cycle",
        ),
        (access(addr="0x1000"), NOTICE, "number_as_text", "addr is a string", ".addr"),
        (
            engine(0.5),
            NOTICE,
            "fractional_number",
            "start_cycle is not a whole number",
            ".start_cycle",
        ),
        (
            engine(engine="GPU"),
            BROKEN,
            "unknown_engine",
            "event 1: engine='GPU'",
            ".engine",
        ),
        (engine(engine=None), BROKEN, "field_missing", "engine missing", ".engine"),
        (engine(engine=3), BROKEN, "unknown_engine", "engine='3'", ".engine"),
        (without(engine(), "op"), BROKEN, "field_missing", "op missing", ".op"),
        (
            engine(engine_id=-1),
            NOTICE,
            "number_out_of_range",
            "engine_id is out",
            ".engine_id",
        ),
        (
            engine(engine_id=[]),
            NOTICE,
            "wrong_type",
            "engine_id is not a number",
            ".engine_id",
        ),
        (
            engine(tile_id=7),
            NOTICE,
            "wrong_type",
            "tile_id is not a string",
            ".tile_id",
        ),
        (engine(deps=1), NOTICE, "wrong_type", "deps is not a list", ".deps"),
        (engine(deps=["a"]), NOTICE, "wrong_type", "deps is not a list", ".deps"),
        (
            access(mem_type="HBM"),
            BROKEN,
            "unknown_mem_type",
            "mem_type='HBM'",
            ".mem_type",
        ),
        (
            access(direction="both"),
            BROKEN,
            "unknown_direction",
            "direction='both'",
            ".direction",
        ),
        (access(bytes=-4), BROKEN, "negative_bytes", "negative bytes", ".bytes"),
        (access(bytes=-1), BROKEN, "negative_bytes", "negative bytes", ".bytes"),
        (
            token(0, 1, phase="WARMUP"),
            BROKEN,
            "unknown_token_phase",
            "event 1: phase='WARMUP'",
            ".phase",
        ),
        (
            without(token(0, 1), "token_index"),
            BROKEN,
            "field_missing",
            "token_index missing",
            ".token_index",
        ),
        (
            token(0, 1, token_index=2**40),
            NOTICE,
            "number_out_of_range",
            "token_index is out",
            ".token_index",
        ),
        (
            command(1, "PAUSE"),
            BROKEN,
            "unknown_cmd_event",
            "event 1: event='PAUSE'",
            ".event",
        ),
        (stall(0, 1, master="X"), NOTICE, "unknown_master", "master='X'", ".master"),
        (
            stall(0, 1, reason="cosmic_ray"),
            NOTICE,
            "unknown_reason",
            "shown as they are: cosmic_ray (1)",
            ".reason",
        ),
        (without(marker(1), "name"), BROKEN, "field_missing", "name missing", ".name"),
        (
            marker(1, "INVALID_TRACE", details={"why": "queue"}),
            Severity.ERROR,
            "invalid_trace",
            'invalid: {"why": "queue"}',
            "",
        ),
        (marker(1, "INVALID_TRACE"), Severity.ERROR, "invalid_trace", "no details", ""),
    ],
)
def test_event_that_breaks_a_rule_gives_one_warning(
    tmp_path: Path,
    event: object,
    severity: Severity,
    code: str,
    text: str,
    field: str,
) -> None:
    trace = read_events(tmp_path, engine(3, 4, op="FIRST"), event, marker(5, "LAST"))

    warning = only_warning(trace)
    assert (warning.severity, warning.code, warning.count) == (severity, code, 1)
    assert text in warning.message
    assert warning.place == f"timeline_events[1]{field}"
    assert warning.offset is not None
    assert warning.offset > 0
    assert trace.info.n_records == 3
    assert trace.records is not None
    lost = "not shown" in warning.message
    assert len(trace.spans) + len(trace.markers) + len(trace.accesses) >= 3 - lost
    names = [trace.strings[i] for i in trace.markers.name.tolist()]
    assert "LAST" in names


@pytest.mark.parametrize("value", [5.0, 1e1])
def test_whole_floats_are_cycles_without_a_word(tmp_path: Path, value: float) -> None:
    trace = read_events(tmp_path, engine(value, 20))

    assert trace.warnings == ()
    assert spans_on(trace, "TE 0") == [("ffn_1_t0", int(value), 20)]


def test_repaired_values_are_used(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine("0x10", 40.4, layer_id=3, engine_id="2"))

    assert spans_on(trace, "TE 2") == [("ffn_1_t0", 16, 40)]
    assert trace.spans.layer is not None
    assert trace.spans.layer.tolist() == [3]
    codes = {w.code: w.count for w in trace.warnings}
    assert codes == {"number_as_text": 2, "fractional_number": 1, "wrong_type": 1}


def test_repeated_problems_are_counted_with_the_first_place(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(), *[engine(5, 4)] * 7)

    assert only_warning(trace).count == 7
    assert only_warning(trace).place == "timeline_events[1].end_cycle"


def test_half_of_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(tile_id="a\ud800b"))

    assert trace.span_name(0) == "a\ufffdb"
    assert trace.warnings == ()


def test_text_that_is_not_utf8_is_replaced_and_noted(tmp_path: Path) -> None:
    text = json.dumps(document(engine(tile_id="XX"), engine(5, 6))).encode()

    trace = read_text(tmp_path, text.replace(b"XX", b"\xff\xfe"))

    assert trace.span_name(0) == "\ufffd\ufffd"
    assert only_warning(trace).code == "invalid_utf8"
    assert only_warning(trace).offset == text.index(b"XX")


def test_deeply_nested_event_costs_only_itself(tmp_path: Path) -> None:
    text = json.dumps(document(engine(), engine(details="DEEP"), engine(20, 30)))

    trace = read_text(tmp_path, text.replace('"DEEP"', "[" * 100_000 + "]" * 100_000))

    assert len(trace.spans) == 2
    assert (only_warning(trace).severity, only_warning(trace).code) == (
        LOSS,
        "too_deep",
    )


def test_deeply_nested_details_of_a_marker_are_bounded(tmp_path: Path) -> None:
    deep: object = 0
    for _ in range(300):
        deep = {"d": deep}

    trace = read_events(tmp_path, marker(1, details=deep))

    assert len(trace.strings[int(trace.markers.detail[0])]) <= 4096


def test_nesting_near_the_limit_of_the_parser_never_fails(tmp_path: Path) -> None:
    names = set()
    for depth in range(860, 1000, 2):
        nested = '{"d":' * depth + "0" + "}" * depth
        text = json.dumps(document(marker(1, "M", details="DEEP"), run_metadata="DEEP"))
        trace = read_text(tmp_path, text.replace('"DEEP"', nested))
        names.add(len(trace.markers))
    assert names == {0, 1}


def test_text_of_what_is_nested_too_deeply_says_so() -> None:
    deep: object = 0
    for _ in range(5000):
        deep = [deep]

    assert text_of(deep) == "(nested too deeply)"


def test_cycle_beyond_any_float_is_out_of_range(tmp_path: Path) -> None:
    text = json.dumps(document(engine(0, "huge"))).replace('"huge"', "1e999")

    trace = read_text(tmp_path, text)

    assert only_warning(trace).code == "cycle_unusable"
    assert "out of range" in only_warning(trace).message


@pytest.mark.parametrize("key", ["future", "run_metadata"])
def test_deeply_nested_header_value_is_left_out(tmp_path: Path, key: str) -> None:
    text = json.dumps(document(engine(), **{key: "DEEP"}))

    trace = read_text(tmp_path, text.replace('"DEEP"', "[" * 99_999 + "]" * 99_999))

    assert len(trace.spans) == 1
    assert (only_warning(trace).severity, only_warning(trace).code) == (
        LOSS,
        "too_deep",
    )
    assert only_warning(trace).place == key


def test_deeply_nested_sample_is_left_out(tmp_path: Path) -> None:
    text = json.dumps(document(bandwidth_samples=[sample(0), "DEEP"]))

    trace = read_text(tmp_path, text.replace('"DEEP"', "[" * 99_999 + "]" * 99_999))

    assert len(trace.counters[0]) == 1
    assert {w.code for w in trace.warnings} == {"too_deep", "sample_not_object"}


@pytest.mark.parametrize(
    ("entry", "severity", "code", "text"),
    [
        (5, BROKEN, "sample_not_object", "sample 1 is not an object"),
        (sample(None), BROKEN, "cycle_missing", "sample 1: cycle missing"),
        (
            sample(64, window_cycles=0),
            BROKEN,
            "bandwidth_window_zero",
            "sample 1: window_cycles is 0",
        ),
        (
            without(sample(64), "window_cycles"),
            BROKEN,
            "bandwidth_window_missing",
            "sample 1: window_cycles is missing",
        ),
        (
            sample(64, window_cycles=-5),
            BROKEN,
            "bandwidth_window_negative",
            "sample 1: window_cycles is negative (-5)",
        ),
        (
            sample(64, window_cycles="x"),
            BROKEN,
            "bandwidth_window_unusable",
            "sample 1: window_cycles is not a number",
        ),
        (sample(64, dram_read_bytes="7"), NOTICE, "number_as_text", "is a string"),
        (sample(64, dram_read_bytes="x"), NOTICE, "wrong_type", "is not a number"),
        (sample(64, kv_bytes=[]), NOTICE, "wrong_type", "kv_bytes is not a number"),
        (
            sample(64, dram_write_bytes=-7),
            BROKEN,
            "negative_dram_write_bytes",
            "sample 1: negative dram_write_bytes",
        ),
        (sample(-64), BROKEN, "negative_cycle", "sample 1: negative cycle"),
    ],
)
def test_sample_that_breaks_a_rule_is_noted(
    tmp_path: Path, entry: object, severity: Severity, code: str, text: str
) -> None:
    root = document(bandwidth_samples=[sample(0), entry, sample(128)])

    trace = read_text(tmp_path, json.dumps(root))

    first = {w.code: w for w in trace.warnings}[code]
    assert first.severity == severity
    assert text in first.message
    assert first.place.startswith("bandwidth_samples[1]")
    assert len(trace.counters[0]) >= 2


@pytest.mark.parametrize(
    ("values", "severity", "code", "place"),
    [
        ({"version": None}, BROKEN, "version_missing", "version"),
        ({"version": 1.0}, BROKEN, "version_not_a_string", "version"),
        ({"version": "one"}, BROKEN, "version_malformed", "version"),
        ({"run_metadata": [1]}, NOTICE, "wrong_type", "run_metadata"),
        ({"config_snapshot": 1}, NOTICE, "wrong_type", "config_snapshot"),
        ({"summary_metrics": "x"}, NOTICE, "wrong_type", "summary_metrics"),
        ({"bandwidth_samples": {}}, BROKEN, "wrong_type", "bandwidth_samples"),
        (
            {"summary_metrics": {"cycles_total": 9}},
            BROKEN,
            "cycles_total_too_small",
            "summary_metrics.cycles_total",
        ),
    ],
)
def test_header_that_breaks_a_rule_gives_one_warning(
    tmp_path: Path,
    values: dict[str, object],
    severity: Severity,
    code: str,
    place: str,
) -> None:
    trace = read_text(tmp_path, json.dumps({**document(engine()), **values}))

    warning = only_warning(trace)
    assert (warning.severity, warning.code, warning.place) == (severity, code, place)
    assert len(trace.spans) == 1


@pytest.mark.parametrize("total", [10, 10.0, "9", None, True])
def test_total_that_is_large_enough_or_no_number_is_not_noted(
    tmp_path: Path, total: object
) -> None:
    root = document(engine(), summary_metrics={"cycles_total": total})

    assert read_text(tmp_path, json.dumps(root)).warnings == ()


def test_total_without_spans_is_not_noted(tmp_path: Path) -> None:
    root = document(marker(9), summary_metrics={"cycles_total": 1e999})

    assert (
        read_text(tmp_path, json.dumps(root).replace("Infinity", "1e999")).check() == []
    )


@pytest.mark.parametrize("version", ["2.0", "0.9", "10", 2, 11.5])
def test_other_major_version_is_unsupported(tmp_path: Path, version: object) -> None:
    with pytest.raises(UnsupportedVersionError, match="format version"):
        read_text(tmp_path, json.dumps({**document(engine()), "version": version}))


@pytest.mark.parametrize("version", ["1", "1.0", "1.99", "01.2", "1.x"])
def test_other_minor_version_is_read(tmp_path: Path, version: str) -> None:
    trace = read_text(tmp_path, json.dumps({**document(engine()), "version": version}))

    assert trace.info.format_version == version
    assert trace.warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version": "1.0", "run_metadata": {}}', "timeline_events missing"),
        ('{"timeline_events": {}}', "timeline_events is not an array"),
        ('{"timeline_events": null}', "timeline_events is not an array"),
        ("[]", "root is not an object"),
        ('["x"]', "root is not an object"),
        ('"timeline_events"', "root is not an object"),
        ("null", "root is not an object"),
        ("nope", "Expecting value: line 1 column 1"),
        ("   ", "Expecting value: line 1 column 4"),
        ('{"timeline_events": []} x', "Extra data: line 1 column 25"),
        ('{"timeline_events": [{"type": NaN}]}', "NaN/Infinity is not JSON: NaN"),
        ('{"timeline_events": [], "x": [-Infinity]}', "not JSON: -Infinity"),
        ('{"timeline_events": [],\n "x": [1}}', "delimiter: line 2 column 9"),
        ('{"timeline_events": [{} {}]}', "Expecting ',' delimiter"),
        ('{"timeline_events": [1, ]}', "Expecting value"),
        (
            '{"timeline_events": [], "bandwidth_samples": [{"a": tru}]}',
            "Expecting value",
        ),
        ('{"timeline_events": []', "Expecting ',' delimiter"),
    ],
)
def test_file_that_cannot_be_read_says_why(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ReadError) as caught:
        read_text(tmp_path, text, strict="true")

    assert message in caught.value.message


def test_value_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    text = json.dumps(document(engine(details={"x": "y" * 9000})))

    with pytest.raises(LimitExceededError, match="1,024 bytes"):
        read_text(tmp_path, text, block_bytes=64, value_bytes=1024)


def test_cut_file_names_line_column_and_events_before(tmp_path: Path) -> None:
    text = json.dumps(
        document(engine(), marker(3), engine(4, 5, tile_id="t")), indent=1
    )
    cut = text[: text.rindex('"t"') + 2]

    with pytest.raises(TruncatedError) as caught:
        read_text(tmp_path, cut, strict="true")

    error = caught.value
    line = cut.count("\n") + 1
    assert f"Unterminated string starting at: line {line} column 15" in error.message
    assert error.message.startswith(
        f"the file ends inside event 2, at byte {len(cut)}; 2 complete events before it"
    )
    assert error.offset == len(cut) - 2
    assert "without option strict" in error.hint


def test_cut_file_opens_with_what_was_readable(tmp_path: Path) -> None:
    text = json.dumps(document(engine(), marker(3, "M"), engine(4, 5)))

    trace = read_text(tmp_path, text[:-9])

    assert (len(trace.spans), len(trace.markers)) == (1, 1)
    warning = only_warning(trace)
    assert (warning.severity, warning.code) == (Severity.DATA_LOSS, "truncated_json")
    assert "strict" not in trace.info.options


@pytest.mark.parametrize("option", [{"strict": "true"}, {"salvage": "false"}])
def test_strict_reading_refuses_a_cut_file(
    tmp_path: Path, option: dict[str, str]
) -> None:
    text = json.dumps(document(engine(), marker(3, "M"), engine(4, 5)))

    with pytest.raises(TruncatedError):
        read_text(tmp_path, text[:-9], **option)
    assert read_text(tmp_path, text, **option).warnings == ()


@pytest.mark.parametrize(
    ("old", "new"), [('"LAST"', "NaN"), ("20}", "20 x}"), (", {", " {")]
)
def test_broken_file_is_salvaged_up_to_the_fault(
    tmp_path: Path, old: str, new: str
) -> None:
    root = document(engine(), engine(1, 20))
    del root["timeline_events"]
    events = [engine(), without(engine(1, 20, tile_id="LAST"), "details")]
    events[1]["end_cycle"] = events[1].pop("end_cycle")
    text = json.dumps({**root, "timeline_events": events}).replace(old, new)

    with pytest.raises(CorruptError):
        read_text(tmp_path, text, strict="yes")
    trace = read_text(tmp_path, text)

    assert spans_on(trace, "TE 0") == [("ffn_1_t0", 0, 10)]
    assert only_warning(trace).code == "broken_json"


def test_salvage_of_a_file_without_events_fails(tmp_path: Path) -> None:
    with pytest.raises(TruncatedError) as caught:
        read_text(tmp_path, '{"version": "1.0", "timeline_ev')

    assert "before its event list" in caught.value.message
    assert "strict" not in caught.value.hint


def test_duplicate_keys_are_noted(tmp_path: Path) -> None:
    events = json.dumps([engine()])
    text = (
        '{"version": "1.0", "version": "1.1", "timeline_events": '
        + events
        + ', "timeline_events": '
        + events
        + "}"
    )

    trace = read_text(tmp_path, text)

    assert trace.info.format_version == "1.1"
    assert len(trace.spans) == 2
    assert (only_warning(trace).code, only_warning(trace).count) == ("duplicate_key", 2)


def test_duplicate_keys_of_an_event_count_last(tmp_path: Path) -> None:
    text = json.dumps(document(engine())).replace(
        '"start_cycle": 0', '"start_cycle": 0, "start_cycle": 4'
    )

    assert spans_on(read_text(tmp_path, text), "TE 0") == [("ffn_1_t0", 4, 10)]


PASTED = "\ufeffjson\nCopy code\n" + json.dumps(document(engine()), indent=1).replace(
    '"op"', '// the op\n"op"'
)


@pytest.mark.parametrize("text", [PASTED, PASTED.replace("json\nCopy code", "")])
def test_pasted_copy_is_read_with_a_notice(tmp_path: Path, text: str) -> None:
    trace = read_text(tmp_path, text)

    assert (only_warning(trace).severity, only_warning(trace).code) == (
        NOTICE,
        "pasted_copy",
    )
    assert trace.records is not None
    assert ("op", '"TE_GEMM_TILE"'.strip('"')) in [
        field[:2] for field in trace.records.view(0).fields
    ]


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    trace = read_text(tmp_path, "\ufeff" + json.dumps(document(engine())))

    assert trace.warnings == ()


REMARKS = """{
  // of run 1
  "version": "1.0", // minor
  "timeline_events": [
    ENGINE, /* over
    two lines */
    // the next one
    ENGINE // and its end
  ]
}
// the end
"""


@pytest.mark.parametrize(
    "text",
    [
        REMARKS,
        REMARKS.replace("  // of run 1\n", "").replace(" // minor", ""),
        REMARKS.replace("\n// the end", "\n"),
        "/* first */" + REMARKS,
        as_lines(engine(), engine()).replace("}\n", "} // remark\n"),
        "// remark\n" + as_lines(engine(), engine()),
    ],
)
@pytest.mark.parametrize("block_bytes", [1 << 20, 512])
def test_comments_anywhere_are_passed_over_with_a_notice(
    tmp_path: Path, text: str, block_bytes: int
) -> None:
    event = engine(tile_id="http://a.b//c /* d */")
    text = text.replace("ENGINE,", json.dumps(event) + ",", 1)
    text = text.replace("ENGINE ", json.dumps(event) + " ", 1)
    if "http" not in text:
        text = text.replace("ffn_1_t0", "http://a.b//c /* d */")

    trace = read_text(tmp_path, text, block_bytes=block_bytes)

    assert {w.code for w in trace.warnings} == {"pasted_copy"}
    assert [trace.span_name(i) for i in range(2)] == ["http://a.b//c /* d */"] * 2
    head = Head("x.json", len(text), text.encode())
    assert NpuJsonReader().sniff(head).confidence >= 50


def test_comment_behind_what_was_published_keeps_the_order_of_snapshots(
    tmp_path: Path,
) -> None:
    text = json.dumps(document(*(engine(i, i + 1) for i in range(3000))), indent=0)
    published: list[Trace] = []
    context = ReadContext(publish=published.append)

    trace = read_text(
        tmp_path, text + "// end", block_bytes=4096, first_seconds=0.0, context=context
    )

    generations = [t.generation for t in (*published, trace)]
    assert len(published) > 1
    assert generations == sorted(set(generations))
    assert {w.code for w in trace.warnings} == {"pasted_copy"}
    assert len(trace.spans) == 3000


def test_addresses_in_strings_are_no_comments(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(tile_id="http://a.b"), engine(5, 6))

    assert trace.warnings == ()


def test_broken_pasted_copy_names_its_fault(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="Expecting ':' delimiter: line 3 column 2"):
        read_text(tmp_path, '// note\n{"a" // key\n 1}')


def test_lines_with_header_samples_and_rubbish_are_all_distinguished(
    tmp_path: Path,
) -> None:
    text = as_lines(
        {"version": "1.2", "run_metadata": {"run_id": "r"}},
        engine(),
        sample(0),
        {"bandwidth_samples": [sample(64), 5], "config_snapshot": {}},
        {"x": 1},
    )
    text += '// remark\nCopy code\n{"type": "ENGINE_EV\n{"a": NaN}\n[1]\n'
    text += json.dumps(engine(20, 30)) + " // tail\n" + json.dumps(engine(5, 4))

    trace = read_text(tmp_path, text, name="t.jsonl")

    values = {w.code: (w.severity, w.count, w.place) for w in trace.warnings}
    assert values == {
        "sample_not_object": (BROKEN, 1, "line 4"),
        "event_without_type": (BROKEN, 1, "line 5, type"),
        "pasted_copy": (NOTICE, 1, ""),
        "bad_line": (LOSS, 2, "line 8"),
        "event_not_object": (BROKEN, 1, "line 10"),
        "end_before_start": (BROKEN, 1, "line 12, end_cycle"),
    }
    assert trace.info.format_version == "1.2"
    assert trace.info.producer == {"run_id": "r"}
    assert spans_on(trace, "TE 0") == [("ffn_1_t0", 0, 10), ("ffn_1_t0", 20, 30)]
    assert len(trace.counters[0]) == 2
    assert trace.info.n_records == 5


def test_overlong_and_deep_lines_are_skipped(tmp_path: Path) -> None:
    text = as_lines(engine(), marker(3, "x" * 5000), engine(20, 30))
    text += "[" * 50_000 + "]" * 50_000 + "\n"

    long = read_text(
        tmp_path, text.encode(), name="t.jsonl", block_bytes=300, value_bytes=3000
    )
    deep = read_text(tmp_path, text, name="t.jsonl")

    assert len(long.spans) == 2
    assert only_warning(long).count == 2
    assert only_warning(long).message == "line 2 is skipped: it is too long"
    assert only_warning(deep).message == "line 4 is skipped: it is nested too deeply"


def test_cut_last_line_costs_only_itself(tmp_path: Path) -> None:
    text = as_lines(engine(), engine(20, 30))

    trace = read_text(tmp_path, text[:-9], name="t.jsonl")

    assert len(trace.spans) == 1
    assert (only_warning(trace).code, only_warning(trace).place) == (
        "bad_line",
        "line 2",
    )


def test_lines_without_any_event_cannot_be_read(tmp_path: Path) -> None:
    text = 'rubbish\n{"type": "ENGINE_EVENT", "x": {}}}\n{"type": "ENGINE_EVENT"]}'

    with pytest.raises(CorruptError, match="none of its 3 lines"):
        read_text(tmp_path, text, name="t.jsonl")


def test_whole_trace_on_a_line_of_another_is_skipped_with_a_word(
    tmp_path: Path,
) -> None:
    trace = read_text(tmp_path, as_lines(engine(), document(engine())), name="t.jsonl")

    assert len(trace.spans) == 1
    assert (
        only_warning(trace).message == "line 2 is skipped: it holds a trace of its own"
    )


def test_first_line_that_is_rubbish_does_not_hide_the_others(tmp_path: Path) -> None:
    trace = read_text(tmp_path, "rubbish\n" + as_lines(engine()), name="t.jsonl")

    assert len(trace.spans) == 1
    assert only_warning(trace).code == "bad_line"


def test_single_event_line_is_a_trace(tmp_path: Path) -> None:
    assert len(read_text(tmp_path, json.dumps(engine())).spans) == 1


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (json.dumps(document(engine())), 90, 90),
        (json.dumps(document(engine()), indent=2), 90, 90),
        (PASTED, 90, 90),
        ('{"timeline_events": [', 50, 89),
        ('{"version": "1.0", "run_metadata": {}, "x": 1}', 50, 50),
        ('{"version": "1.0", "bandwidth_samples": [' + "1," * 40_000, 50, 50),
        ('{"bandwidth_samples": [' + "1," * 40_000, 50, 50),
        (as_lines(engine(), engine()), 90, 90),
        (as_lines({"version": "1.0"}, engine()), 50, 90),
        (as_lines({"type": "NEW_EVENT"}), 50, 50),
        ("rubbish\n" + as_lines(engine()), 50, 50),
        (json.dumps([document(engine())]), 50, 50),
        (json.dumps([engine()]), 50, 50),
        ("{}", 0, 0),
        ("[]", 0, 0),
        ("[1, 2]", 0, 0),
        ('{"nodes": [], "edges": []}', 0, 0),
        ('{"traceEvents": [{"name": "timeline_events"}]}', 0, 0),
        ('{"version": "1.0"}', 0, 0),
        ('{"ts": 1, "type": "B"}\n', 0, 0),
        ("", 0, 0),
        ("plain text", 0, 0),
        ('text with "quotes"', 0, 0),
        ('GGMLVIZ1\0\0\0\0"', 0, 0),
        ('{"a', 0, 0),
        ('"' * 1000, 0, 0),
        ("[" * 60_000 + '"', 0, 0),
        ('{"a":' * 10_000, 0, 0),
    ],
)
def test_sniff_shows_npu_traces_from_others(text: str, low: int, high: int) -> None:
    data = text.encode()[:HEAD_BYTES]

    sniffed = NpuJsonReader().sniff(Head("x.json", len(text), data))

    assert low <= sniffed.confidence <= high
    assert bool(sniffed.reason) == (low > 0)


def test_reading_stops_where_nobody_waits_any_more(tmp_path: Path) -> None:
    cancel = threading.Event()
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        cancel.set()

    text = json.dumps(document(*[engine(i, i + 1) for i in range(200)]))

    with pytest.raises(Cancelled):
        read_text(
            tmp_path,
            text,
            block_bytes=256,
            context=ReadContext(progress=progress, cancel=cancel),
        )

    assert len(seen) == 1
    assert seen[0][1] == len(text)


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_record_is_read_again_with_its_nested_fields(tmp_path: Path, name: str) -> None:
    events = [marker(0), engine(tile_id="tüle", details={"macs": 7, "e": {}, "l": [1]})]
    text = (
        as_lines(*events)
        if name == "t.jsonl"
        else json.dumps(document(*events), indent=1, ensure_ascii=False)
    )

    trace = read_text(tmp_path, text, name=name)

    assert trace.records is not None
    assert trace.spans.record is not None
    record = int(trace.spans.record[-1])
    view = trace.records.view(record)
    fields = {field[0]: field for field in view.fields}
    data = (tmp_path / name).read_bytes()
    assert data[view.offset : view.offset + len(view.data)] == view.data
    assert fields["type"][1] == "ENGINE_EVENT"
    assert fields["tile_id"][1] == "tüle"
    assert fields["details.macs"][1] == "7"
    assert fields["details.e"][1] == "{}"
    assert "".join(fields["details.l"][1].split()) == "[1]"
    _, text_of, at, length = fields["details.macs"]
    assert view.data[at : at + length] == text_of.encode()


def test_record_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine())

    assert trace.records is not None
    for record in (-1, 1):
        with pytest.raises(ReadError, match="does not exist"):
            trace.records.view(record)


@pytest.mark.parametrize("change", ["", "x" * 4000, '{"version": 1'])
def test_record_of_a_changed_file_is_refused(tmp_path: Path, change: str) -> None:
    trace = read_events(tmp_path, engine())
    (tmp_path / "trace.json").write_text(change)

    assert trace.records is not None
    with pytest.raises(CorruptError, match="has moved"):
        trace.records.view(0)


@pytest.mark.parametrize("old", ['"tile"', '"TE_GEMM_TILE"'])
def test_record_that_only_python_reads_is_shown_as_it_stands(
    tmp_path: Path, old: str
) -> None:
    trace = read_events(tmp_path, engine(tile_id="\ud800"), 5)

    assert trace.records is not None
    assert trace.records.view(0).fields[0][0] == "event"
    assert trace.records.view(1).fields == (("event", "5", 0, 1),)


def test_record_with_a_key_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    text = json.dumps(document(engine(details={"XX": 1}))).encode()

    trace = read_text(tmp_path, text.replace(b"XX", b"\xff\xff"))

    assert trace.records is not None
    fields = {field[0]: field[1] for field in trace.records.view(0).fields}
    assert fields["details"] == '{"\ufffd\ufffd": 1}'


def test_broken_file_too_large_for_a_pasted_copy_names_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PASTE_BYTES", 1 << 16)
    text = "{" + " " * (1 << 17) + "// no\n}"

    with pytest.raises(CorruptError, match="Expecting property name"):
        read_text(tmp_path, text)


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [('"start_cycle": 0', '"start_cycle": 0, "start_cycle": 4', "start_cycle"),
     ('"start_cycle": 0', '"mine": 1, "start_cycle": 0, "mine": 2', "mine"),
     ('"start_cycle": 0', '"start_cycle": 0, "args": [{"x": 1, "x": 2}]', "x")],
)  # fmt: skip
def test_duplicate_keys_of_events_are_noted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    native: str,
    lines: bool,
    old: str,
    new: str,
    key: str,
) -> None:
    if native == "0":
        oracles.npu(monkeypatch)
    good = json.dumps(engine())
    events = [good, good, good.replace(old, new), good, good.replace(old, new)]
    text = '{"version": "1.0", "timeline_events": [' + ", ".join(events) + "]}"
    if lines:
        text = "\n".join(['{"version": "1.0"}', *events])

    trace = read_text(tmp_path, text)

    assert len(trace.spans) == 5
    (note,) = [w for w in trace.warnings if w.code == "duplicate_key"]
    place = f"line 4, {key}" if lines else f"timeline_events[2].{key}"
    assert (note.severity, note.count, note.place) == (NOTICE, 2, place)
    assert note.offset == text.index(events[2])
