"""What files say of themselves stands beside what they hold."""

import json
import math
from dataclasses import replace
from decimal import Decimal

import pytest

import gguf_files
import side_files
import token_files
from ggmlviz_files import run, write
from ggscope.descriptions.files import stated_facts
from ggscope.model.trace import (
    DeclaredMetric,
    JoinedFile,
    Severity,
    Trace,
    contradiction,
    figure_text,
    is_equal,
    stated_figure,
    without_verdict,
)
from ggscope.readers.registry import open_trace
from map_files import document, row
from side_files import edge, graph_text, node
from statements import new_statement
from support import need_corpus
from tensor_files import llama_trace


@pytest.mark.parametrize(
    ("stated", "computed", "unit", "equal"),
    [
        (7, 7, "", True),
        (7, 8, "", False),
        (7.0, 7, "", True),
        (9286, 9286.62, "cycle", True),  # cut off
        (9287, 9286.62, "cycle", True),  # rounded
        (9288, 9286.62, "cycle", False),
        (15.5, 15.5, "cycle", True),
        (15.5, 15.449, "cycle", False),
        (15.5, 15.46, "cycle", True),
        (0.72, 0.293, "share", False),
        (0.1974, 0.19738, "share", True),
        (0.35, 0.353, "share", True),
        (0.35, 0.36, "share", False),
        (1.0, 0.97, "share", True),
        (1, 0.9, "share", False),
        (0, 0.04, "share", False),
        (4.932000041007996, 4.932, "ms", True),
        (4.93, 4.94, "ms", False),
        (10**15 + 1, 10**15, "B", False),
    ],
)
def test_figures_differ_by_more_than_rounding(stated, computed, unit, equal):
    assert is_equal(stated, computed, unit) is equal


@pytest.mark.parametrize("value", [None, "7", True, math.nan, math.inf, [], {}])
def test_what_is_no_number_is_no_figure(value):
    assert stated_figure("x", value, 7) is None


def test_figure_without_content_to_show_has_no_verdict():
    for computed in (None, math.nan):
        figure = stated_figure("x", Decimal("7.5"), computed)

        assert figure is not None
        assert (figure.stated, figure.computed, figure.agrees) == (7.5, None, None)
        known = stated_figure("x", Decimal("7.5"), 7.5)
        assert known is not None
        assert new_statement(figure.verdict, known.verdict)


def test_capacity_may_be_larger():
    def judged(stated: int) -> bool | None:
        figure = stated_figure("x", stated, 5, at_least=True)
        assert figure is not None
        return figure.agrees

    assert [judged(n) for n in (4, 5, 6)] == [False, True, None]


def test_share_is_compared_and_shown_with_the_digits_of_the_file():
    rounded = stated_figure("x", 0.0365, 0.036517, unit="share")
    near = stated_figure("x", 0.0365, 0.0389, unit="share")
    short = stated_figure("x", 0.72, 0.305, unit="share")
    assert rounded is not None
    assert near is not None
    assert short is not None

    assert (rounded.stated_text, rounded.computed_text) == ("3.65 %", "3.65 %")
    assert rounded.verdict == "agrees"
    assert (near.stated_text, near.computed_text) == ("3.65 %", "3.89 %")
    assert (near.agrees, near.verdict == "agrees") == (True, False)
    assert (short.stated_text, short.computed_text) == ("72.0 %", "30.5 %")


def test_least_figure_says_so_where_it_contradicts_nothing():
    def text(stated: int) -> str:
        figure = stated_figure("x", stated, 9, at_least=True)
        assert figure is not None
        return figure.computed_text

    assert [text(n) for n in (8, 9, 10)] == ["9", "9", "at least 9"]


def test_lost_content_contradicts_nothing():
    metric = DeclaredMetric(
        name="x", stated=1, computed=2, basis="its rows", agrees=False
    )
    truth = DeclaredMetric(name="x", stated=1, computed=1, agrees=True)

    assert without_verdict(metric).agrees is None
    judged = without_verdict(metric).basis
    assert judged.startswith("its rows, of")
    assert new_statement(
        judged, without_verdict(replace(metric, computed=1, agrees=True)).basis
    )
    assert without_verdict(truth) is truth


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "", "not known"),
        (1200, "", "1,200"),
        (0.305, "share", "30.5 %"),
        (1000, "B", "1,000 bytes"),
        (2048, "B", "2,048 bytes (2.0 KiB)"),
        (15.5, "cycle", "15.5 cycles"),
        (4.932, "ms", "4.932 ms"),
    ],
)
def test_figures_are_written_exactly(value, unit, text):
    assert figure_text(value, unit) == text


def opened(tmp_path, name: str, text: str | bytes) -> Trace:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    trace = open_trace(path)
    assert trace.check() == []
    return trace


def verdicts(trace: Trace) -> dict[str, bool | None]:
    return {figure.name: figure.agrees for figure in trace.info.stated}


def contradiction_text(trace: Trace) -> str:
    """Return the message of the only problem with a contradiction."""
    (warning,) = [w for w in trace.warnings if w.code == "stated_figures"]
    assert warning.severity == Severity.NOTICE
    return warning.message


def tokens(**changes: object) -> str:
    value = token_files.document(llama_trace(1))
    value["metadata"] |= changes
    return json.dumps(value)


def test_token_trace_that_shows_the_truth(tmp_path):
    trace = opened(tmp_path, "token-00000.json", tokens())

    assert verdicts(trace) == dict.fromkeys(
        ("entries", "duration", "first time stamp", "sources"), True
    )
    assert "stated_figures" not in {w.code for w in trace.warnings}


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("duration_ms", 9999.5, "duration"),
        ("timestamp_start_ns", 3, "first time stamp"),
    ],
)
def test_token_trace_that_lies(tmp_path, key, value, name):
    trace = opened(tmp_path, "token-00000.json", tokens(**{key: value}))

    assert f"{name}: " in contradiction_text(trace)
    assert [n for n, agrees in verdicts(trace).items() if agrees is False] == [name]


def test_entries_of_a_token_trace_are_reported_once(tmp_path):
    trace = opened(tmp_path, "token-00000.json", tokens(total_entries=3))

    assert verdicts(trace)["entries"] is False
    assert [w.code for w in trace.warnings].count("entry_count") == 1
    assert "stated_figures" not in {w.code for w in trace.warnings}


def timeline(**metadata: object) -> str:
    value = json.loads(side_files.sound_timeline())
    value["metadata"] = metadata
    value["buffers"] = [{"id": i, "size": 8, "usage": i % 3} for i in range(1, 30)]
    return json.dumps(value)


def test_buffer_timeline_is_held_against_its_events(tmp_path):
    true = opened(
        tmp_path,
        "b.json",
        timeline(
            total_events=29,
            total_buffers=29,
            peak_occupancy_bytes=232,
            duration_ms=28.0,
            usage_breakdown={"ANY": 9, "WEIGHTS": 10, "COMPUTE": 10},
        ),
    )
    contradicted = opened(
        tmp_path, "c.json", timeline(duration_ms=5, usage_breakdown={"WEIGHTS": 3})
    )

    assert set(verdicts(true).values()) == {True}
    assert len(true.info.stated) == 7
    assert "duration: 5 ms stated, 28 ms by its events" in contradiction_text(
        contradicted
    )
    assert "WEIGHTS buffers: 3 stated, 10 by its list of buffers" in contradiction_text(
        contradicted
    )


def test_graph_counts_are_figures(tmp_path):
    nodes = [node(f"n{i}", f"blk.{i}.x") for i in range(4)]
    text = graph_text(
        nodes, [edge("n0", "n1")], metadata={"total_nodes": 4, "total_edges": 2}
    )

    trace = opened(tmp_path, "g.json", text)

    assert verdicts(trace) == {"nodes": True, "edges": False}


def test_map_totals_are_figures(tmp_path):
    rows = [row(f"blk.{i}.ffn_up.weight", 64 + 400 * i, 400) for i in range(2)]
    whole = opened(tmp_path, "a.json", document(*rows))
    data_only = opened(tmp_path, "b.json", document(*rows, total=800))
    wrong = [row(f"blk.{i}.ffn_up.weight", 400 * i, 900) for i in range(2)]
    overlapping = opened(tmp_path, "c.json", document(*wrong))
    more = [row(f"blk.{i}.ffn_up.weight", 400 * i, 400) for i in range(3)]

    assert set(verdicts(whole).values()) == {True}
    assert verdicts(data_only)["total size"] is True
    assert verdicts(overlapping)["sizes of all tensors"] is False
    assert "layers: 2 stated, 3 by" in contradiction_text(
        opened(tmp_path, "d.json", document(*more))
    )


def test_model_with_more_layers_than_it_says(tmp_path):
    trace = opened(tmp_path, "tiny.gguf", gguf_files.encode())
    layers = {f.name: f for f in trace.info.stated}.get("layers")

    assert layers is not None
    assert layers.agrees is not False


def test_graphs_say_how_many_ops_they_have(tmp_path):
    sound = open_trace(write(tmp_path / "a.ggmlviz", run()))
    events = [
        type(e)(e.kind, e.time, e.ptr, 1, e.size, e.thread, e.backend, e.label)
        if e.kind == 0
        else e
        for e in run()
    ]
    fewer = open_trace(write(tmp_path / "b.ggmlviz", events))

    assert verdicts(sound) == {"nodes of graphs": True}
    assert "nodes of graphs: 5 stated, 15 by ops that began" in contradiction_text(
        fewer
    )


@pytest.mark.parametrize(("n_threads", "n_nodes"), [(1, 3), (2, 3), (4, 3), (4, 2)])
def test_ops_that_every_thread_logs_count_once(n_threads, n_nodes, tmp_path):
    events = []
    for e in run():
        number = n_nodes if e.kind == 0 else e.number
        events.append(replace(e, number=number))
        if e.kind in (2, 3):  # ops begin and end
            events += [
                replace(e, thread=2 + i, time=e.time + 1 + i)
                for i in range(n_threads - 1)
            ]

    trace = open_trace(write(tmp_path / "a.ggmlviz", events))

    (figure,) = trace.info.stated
    assert (figure.stated, figure.computed) == (5 * n_nodes, 15)
    assert figure.agrees is (n_nodes == 3)


@pytest.mark.parametrize("commit", ["3584a339", "962e44d2", "a6ba6071", "c26d86e7"])
def test_files_of_the_corpus_state_what_they_hold(commit):
    folder = need_corpus() / "bsc" / commit
    for path in sorted(folder.rglob("*.json")):
        if path.name.startswith("token-") or path.name == "buffer-timeline.json":
            trace = open_trace(path)

            assert trace.info.stated
            assert False not in verdicts(trace).values(), path


def test_sizes_of_quantised_maps_are_reported_as_wrong():
    folder = need_corpus() / "bsc" / "3584a339"
    (path,) = folder.rglob("memory-map.json")

    result = verdicts(open_trace(path))

    assert (result["tensors"], result["layers"]) == (True, True)
    assert (result["sizes of all tensors"], result["total size"]) == (False, False)


def test_facts_of_a_session_name_their_files(tmp_path):
    trace = opened(tmp_path, "b.json", timeline(total_events=29, duration_ms=5))
    parts = (JoinedFile(trace.info, "buffers"),)

    alone = stated_facts(trace)
    object.__setattr__(trace, "parts", parts)
    joined = stated_facts(trace)

    assert [file for file, _ in trace.stated_figures()] == ["b.json", "b.json"]
    assert alone[0].value == joined[0].value
    assert alone[0].value == "1 of 2 values does not match the data"
    assert (alone[1].label, alone[1].caution) == ("duration", True)
    assert joined[1].exact.endswith("b.json")
    sound = opened(tmp_path, "c.json", timeline(total_events=29, duration_ms=28))
    assert new_statement(alone[0].value, stated_facts(sound)[0].value)
    assert contradiction(trace.info.stated[1]).startswith("duration: 5 ms stated, 28")


def test_trace_that_states_nothing_has_no_facts(tmp_path):
    trace = opened(tmp_path, "b.jsonl", side_files.sound_buffer_lines())

    assert stated_facts(trace) == ()
