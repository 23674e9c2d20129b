"""``ggscope stats``: JSON contract, filters, ranges, formats."""

import csv
import io
import json

import numpy as np
import pytest

from builders import llama_like_trace
from extra_column import add_spread
from ggscope.analysis.statistics.pivot import PIVOT_MEASURES
from ggscope.cli import arguments, output
from ggscope.descriptions.statistics import GROUPING_RULES
from ggscope.model.selection import BY
from npu_files import document, engine, stall, token
from statements import new_statements

ROW = {
    "key",
    "count",
    "total_ns",
    "mean",
    "min",
    "p50",
    "p90",
    "p99",
    "max",
    "bytes",
    "share",
    "quality",
}
TRACE = llama_like_trace()


@pytest.mark.parametrize("by", BY)
def test_stats_json_has_every_key_of_the_contract(run, built, by):
    result = run("stats", built(), "--by", by, "--json")

    value = json.loads(result.out)
    assert result.code == 0
    assert value["by"] == by
    for row in value["rows"]:
        assert set(row) >= ROW


def test_stats_equal_numpy(run, built):
    rows = json.loads(run("stats", built(), "--json").out)["rows"]

    row = next(row for row in rows if row["key"] == "MUL_MAT")
    ids = np.flatnonzero(TRACE.spans.op == 3)
    duration = TRACE.spans.end[ids] - TRACE.spans.start[ids]
    assert row["total_ns"] == duration.sum()
    assert [row["p50"], row["p90"], row["p99"]] == np.percentile(
        duration, [50, 90, 99]
    ).tolist()
    assert row["quality"] == "derived"


def test_stats_of_cycles_names_the_unit(run, built):
    value = json.loads(
        run("stats", built("npu_like_trace"), "--by", "engine", "--json").out
    )

    assert value["rows"]
    assert all(row["total_cycles"] > 0 for row in value["rows"])
    assert all(row["bytes"] is None for row in value["rows"])


def test_stats_where_counts_what_the_filter_finds(run, built):
    result = run("stats", built(), "--where", "layer=2 & source=DISK", "--json")

    rows = json.loads(result.out)["rows"]
    flat = TRACE.accesses.flat(TRACE.spans)
    on_disk = np.unique(flat.span[flat.what.space == 0])
    expected = np.count_nonzero(TRACE.spans.layer[on_disk] == 2)
    assert sum(row["count"] for row in rows) == expected > 0


def test_stats_range_counts_the_spans_that_touch_it(run, built):
    result = run("stats", built(), "--from", "0.1ms", "--to", "1ms", "--json")

    s = TRACE.spans
    touching = (s.op >= 0) & (s.start < 1_000_000) & (s.end > 100_000)
    rows = json.loads(result.out)["rows"]
    assert sum(row["count"] for row in rows) == touching.sum()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0.1ms:1ms", ("--from", "0.1ms", "--to", "1ms")),
        ("0.1ms..1ms", ("--from", "0.1ms", "--to", "1ms")),
        (":0.2ms", ("--to", "0.2ms")),
        ("100us:", ("--from", "100us")),
        ("0:00..0:01", ("--from", "0:00", "--to", "0:01")),
        ("1:3", ("--records", "1:3")),
        ("0:50%", ("--records", "0:50%")),
    ],
)
def test_stats_range_is_of_time_where_a_unit_says_so(run, built, text, same):
    result, expected = (
        run("stats", built(), *texts, "--json") for texts in (("--range", text), same)
    )

    assert result == expected
    assert result.code == 0


def test_stats_range_that_is_none_is_refused_with_its_name(run, built):
    result = run("stats", built(), "--range", "5:1")

    assert result.code == 2
    assert "--range: " in result.err


def test_stats_open_range_reaches_the_end(run, built):
    whole = json.loads(run("stats", built(), "--json").out)["rows"]

    rows = json.loads(run("stats", built(), "--from", "0", "--json").out)["rows"]

    assert [row.pop("in_range") for row in rows] == [row["total_ns"] for row in rows]
    assert [row.pop("in_range") for row in whole] == [None] * len(whole)
    assert rows == whole


@pytest.mark.parametrize("more", [(), ("--clip",)])
def test_stats_of_a_range_show_whole_durations_and_the_part_in_it(run, built, more):
    begin, end = 100_000, 150_000
    result = run(
        "stats", built(), "--by", "lane", "--from", "100us", "--to", "150us", *more,
        "--json",
    )  # fmt: skip
    table = run("stats", built(), "--from", "100us", "--to", "150us", *more)

    s = TRACE.spans
    touching = (s.start < end) & (s.end > begin)
    rows = json.loads(result.out)["rows"]
    whole = (s.end - s.start)[touching & (s.flags & 4 == 0)]
    inside = np.minimum(s.end, end) - np.maximum(s.start, begin)
    assert max(row["max"] for row in rows) == whole.max() > end - begin
    assert (
        sum(row["in_range"] for row in rows)
        == inside[touching & (s.flags & 4 == 0)].sum()
    )
    assert "in range" in table.out.splitlines()[0]


def test_stats_by_tensor_add_up_to_those_by_op(run, built):
    def total(by):
        rows = json.loads(run("stats", built(), "--by", by, "--json").out)["rows"]
        keys = ("total_ns", "count", "bytes")
        return [sum(row[key] or 0 for row in rows) for key in keys]

    assert total("tensor") == total("op") == total("layer")
    assert total("expert")[0] == total("op")[0]


@pytest.mark.parametrize("by", ["tensor", "expert", "source"])
def test_stats_by_what_ops_access_print_the_rule(run, built, by):
    assert GROUPING_RULES[by] in run("stats", built(), "--by", by).err
    assert GROUPING_RULES[by] not in run("stats", built(), "--by", "op").err


def test_extra_column_is_in_every_output(run, built, tmp_path, monkeypatch):
    add_spread(monkeypatch)
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"

    rows = json.loads(run("stats", built(), "--json").out)["rows"]
    lines = run("stats", built(), "--format", "csv").out.splitlines()
    table = run("stats", built(), "--columns", "count,spread").out
    run("report", built(), "-o", page, "--view", "timeline")
    export = ("--view", "statistics", "--measure", "spread", "-o", picture)

    assert all(row["spread_ns"] == row["max"] - row["min"] for row in rows)
    assert next(csv.reader(lines))[-1] == "spread_ns"
    assert table.split()[:3] == ["op", "count", "spread"]
    assert ">spread</th>" in page.read_text()
    assert run("export", built(), *export).code == 0
    assert "longest minus shortest" in picture.read_text()


def test_stats_csv_has_plain_numbers(run, built):
    result = run("stats", built(), "--format", "csv", "--by", "layer")

    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert {row["key"] for row in rows} == {"0", "1", "2", "3"}
    assert all(row["total_ns"].isdecimal() for row in rows)


def test_stats_csv_has_its_columns_without_rows(run, built):
    full = run("stats", built(), "--format", "csv").out
    empty = run("stats", built("empty_trace"), "--format", "csv")

    assert (empty.code, empty.out) == (0, full.splitlines(keepends=True)[0])


def test_stats_table_has_units(run, built):
    result = run("stats", built(), "--limit", "2")

    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["op", "count", "total"]
    assert len(lines) == 3
    assert "ms" in lines[1]
    assert "MiB" in lines[1]


def test_stats_of_nothing_says_so(run, built):
    result = run("stats", built(), "--where", "op=POOL_2D")

    assert result.code == 0
    assert "no op matches" in result.out
    by_lane = run("stats", built(), "--by", "lane", "--where", "op=POOL_2D")
    assert "no span matches" in by_lane.out


def test_stats_of_a_file_without_ops_names_what_counts_its_spans(run, built):
    path = built("spans_trace((0,20),(10,50))")

    assert "records no ops" in run("stats", path).out
    assert "--by lane" in run("stats", path).out
    rows = json.loads(run("stats", path, "--by", "lane", "--json").out)["rows"]
    assert [row["count"] for row in rows] == [2]


def test_stats_format_takes_a_readers_name_too(run, built):
    assert run("stats", built(), "--format", "builder").code == 0
    assert run("stats", built(), "--format", "nonsense").code == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--where", "colour=red"), "'colour' (character 1)"),
        (("--where", "/a(b/"), "regular expression"),
        (("--from", "soon"), "'soon' is not a time of this trace"),
        (("--from", "5", "--to", "1"), "--to is before --from"),
    ],
)
def test_stats_with_a_wrong_question_is_an_error(run, built, options, message):
    result = run("stats", built(), *options)

    assert result.code == 2
    assert message in result.err


def test_stats_of_several_files_names_them(run, built):
    result = run("stats", built(), built("npu_like_trace"))

    assert "llama_like_trace.built" in result.out
    assert "npu_like_trace.built" in result.out


def test_stats_of_an_op_that_nobody_knows_are_refused_with_a_hint(run, built):
    result = run("stats", built(), "--where", "not op=MULMAT")

    assert result.code != 0
    assert "Unknown op MULMAT. Did you mean MUL_MAT" in result.err


def test_command_line_has_a_row_for_each_token(run, tmp_path) -> None:
    path = tmp_path / "run.json"
    events = [token(0, 9, phase="PREFILL"), token(9, 20), engine(0, 5), engine(9, 12)]
    path.write_text(json.dumps(document(*events)))

    result = run("stats", path, "--by", "token", "--json")

    rows = json.loads(result.out)["rows"]
    assert [(row["key"], row["latency_cycles"]) for row in rows] == [
        ("decode 0", 11),
        ("prefill 0", 9),
    ]


def test_stats_of_very_many_groups_show_the_largest_and_count_the_rest(run, built):
    file = built("spans_trace(range(600),range(1,601),range(600),op=3)")

    result = run("stats", file, "--by", "lane")

    lines = result.out.splitlines()
    assert len(lines) == 502
    assert lines[-1].startswith("… and 100 more; --limit N lists more")
    whole = run("stats", file, "--by", "lane", "--limit", "600")
    assert len(whole.out.splitlines()) == 601
    assert new_statements(result.out, whole.out)
    rows = json.loads(run("stats", file, "--by", "lane", "--json").out)["rows"]
    assert len(rows) == 600


def test_ops_that_threads_share_are_distinguished_from_their_spans(run, built):
    def shown(by: str, *, is_shared: bool) -> str:
        op = f"Op(0,(Read(0,64),),thread=1,repeated={is_shared})"
        made = f"reads_trace([TensorRow('a',0,64)],[Op(0,(Read(0,64),)),{op}])"
        result = run("stats", built(made), "--by", by)
        return result.out + result.err

    apart = shown("op", is_shared=False) + shown("thread", is_shared=False)
    assert new_statements(shown("op", is_shared=True), apart)
    shared = shown("op", is_shared=True)
    assert new_statements(shown("thread", is_shared=True), apart + shared)


def test_share_of_stalled_time_stands_beside_engines(run, tmp_path):
    events = [engine(0, 100), stall(10, 30), stall(20, 40)]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document(*events)))

    facts = json.loads(run("stats", path, "--by", "engine", "--json").out)
    command_result = run("stats", path, "--by", "engine")

    (result,) = facts["stalls"]
    assert (result["stalled"], result["share"]) == (30, 0.3)
    assert "TE 0 stalls 30.0 %." in command_result.err
    assert "stalled" not in run("stats", path, "--by", "op").err
    assert json.loads(run("stats", path, "--by", "op", "--json").out)["stalls"] == []


def test_stats_by_what_a_file_does_not_have_say_so(run, built):
    by_thread = run("stats", built("npu_like_trace"), "--by", "thread").out
    by_engine = run("stats", built("npu_like_trace"), "--by", "engine").out

    assert by_thread == "Nothing to count: the file has no threads.\n"
    assert by_engine.splitlines()[0].split()[:3] == ["engine", "count", "total"]


def test_stats_show_the_columns_asked_for_in_that_order(run, built):
    result = run("stats", built(), "--columns", "p50, count,total")

    assert result.out.splitlines()[0].split() == ["op", "p50", "count", "total"]
    assert run("stats", built(), "--columns", "nonsense").code == 2


def test_stats_sort_by_any_column(run, built):
    def rows(column):
        result = run("stats", built(), "--sort", column, "--json")
        return json.loads(result.out)["rows"]

    by_mean, by_name = rows("mean"), rows("key")

    means = [row["mean"] for row in by_mean]
    assert means == sorted(means, reverse=True)
    assert means != [row["mean"] for row in by_name]
    assert [row["key"] for row in by_name] == sorted(row["key"] for row in by_name)
    few = run("stats", built(), "--sort", "mean", "--limit", "2", "--json")
    assert json.loads(few.out)["rows"] == by_mean[:2]


def test_stats_sort_numbers_as_numbers(run, built):
    file = built("token_trace(list(zip(range(0,240,20),range(9,249,20),[5]*12)))")
    result = run("stats", file, "--by", "token", "--sort", "key", "--json")

    keys = [row["key"] for row in json.loads(result.out)["rows"]]
    assert keys == [str(i) for i in range(12)]


def test_stats_by_token_begin_with_the_slowest(run, built):
    file = built("token_trace([(0,100,90),(100,400,20),(400,600,30)])")

    rows = json.loads(run("stats", file, "--by", "token", "--json").out)["rows"]
    table = run("stats", file, "--by", "token").out.splitlines()

    assert [(row["key"], row["latency_ns"], row["wall"]) for row in rows] == [
        ("1", 300, 20),
        ("2", 200, 30),
        ("0", 100, 90),
    ]
    assert [row["idle_ns"] for row in rows] == [280, 170, 10]
    assert table[0].split()[:2] == ["token", "latency"]
    assert [line.split()[0] for line in table[1:]] == ["1", "2", "0"]


def test_stats_show_bytes_per_second_where_all_bytes_are_known(run, built):
    tensors = "[TensorRow('a',0,64)]"
    known = f"reads_trace({tensors},[Op(0,(Read(0,64),)),Op(20,(Read(0,64),))])"
    part = f"reads_trace({tensors},[Op(0,(Read(0,64),)),Op(20,(Read(0),))])"

    (row,) = json.loads(run("stats", built(known), "--json").out)["rows"]
    head = run("stats", built(known), "--format", "csv").out.splitlines()[0]
    (open_row,) = json.loads(run("stats", built(part), "--json").out)["rows"]

    assert row["bytes_per_second"] == row["least_bytes_per_second"] == 128 / 20e-9
    assert open_row["bytes_per_second"] is None
    assert open_row["least_bytes_per_second"] == 64 / 20e-9
    assert {"latency_ns", "idle_ns", "bytes_per_second"} <= set(head.split(","))


def test_stats_of_a_terminal_are_as_wide_as_it(run_terminal, built):
    file = str(built())
    lines = {width: run_terminal("stats", file, width=width) for width in (60, 90, 400)}

    for width, text in lines.items():
        table = [line for line in text.splitlines() if not line.startswith("ggscope:")]
        assert max(map(len, table)) <= width
    narrow, wide = lines[60], lines[400]
    assert "p99" in wide.splitlines()[0]
    assert "p99" not in narrow.splitlines()[0]
    assert "columns not shown:" in narrow
    assert "columns not shown:" not in wide
    everything = run_terminal("stats", file, "--wide", width=60)
    assert everything.splitlines()[0] == wide.splitlines()[0]


def test_stats_of_a_pipe_have_all_columns(run, built, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")

    result = run("stats", built())

    assert "p99" in result.out.splitlines()[0]


def test_figures_of_statistics_draw_the_column_asked_for(run, built, tmp_path):
    file = built("token_trace([(0,100,90),(100,400,20)])")

    def caption(*more):
        target = tmp_path / "bars.svg"
        command = ("export", "--view", "statistics", "--by", "token", file, "--force")
        result = run(*command, "-o", target, "--caption", "-", *more)
        assert result.code == 0
        return result.out, target.read_text()

    message, drawn = caption("--measure", "latency")
    assert "Latency by token" in message
    assert "300 ns" in drawn
    assert "100 ns" in drawn
    assert "Total by token" in caption()[0]
    wrong = run("export", "--view", "statistics", file, "-o", "x.svg", "--measure", "q")
    assert wrong.code == 2


def test_cycles_of_a_range_are_those_of_the_file(run, tmp_path):
    """Though the first event comes at cycle 900."""
    events = [engine(900, 1000), engine(1500, 1600)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document(*events)))

    for first, n in (("900cyc", 2), ("1000cyc", 1), ("1500", 1)):
        result = run("stats", path, "--from", first, "--by", "engine", "--json")
        assert sum(row["count"] for row in json.loads(result.out)["rows"]) == n
    facts = json.loads(run("info", path, "--json").out)
    assert (facts["clock"]["origin"], facts["extent"]["start"]) == (0, 900)


# -- two groupings -----------------------------------------------------------------


def test_pivot_json_adds_to_what_stats_print_and_changes_nothing(run, built):
    plain = json.loads(run("stats", built(), "--by", "layer", "--json").out)
    both = json.loads(
        run("stats", built(), "--by", "layer", "--pivot", "op", "--json").out
    )

    table = both.pop("pivot")
    assert both == plain
    assert table["by"] == "op"
    totals = {row["key"]: row for row in plain["rows"]}
    for row in table["rows"]:
        assert row["total_ns"] == totals[row["key"]]["total_ns"]
        assert row["total_ns"] == sum(cell["total_ns"] for cell in row["cells"])
        assert row["count"] == sum(cell["count"] for cell in row["cells"])
    assert table["all"]["total_ns"] == sum(c["total_ns"] for c in table["columns"])
    assert set(table["all"]) == {"count", "timed", "ops", "total_ns", "bytes"}


def test_pivot_csv_has_a_row_per_cell(run, built):
    table = json.loads(
        run("stats", built(), "--by", "op", "--pivot", "layer", "--json").out
    )["pivot"]
    out = run("stats", built(), "--by", "op", "--pivot", "layer", "--format", "csv").out

    rows = list(csv.DictReader(io.StringIO(out)))
    values = {(row["key"], row["column"]): int(row["total_ns"]) for row in rows}
    expected = {
        (row["key"], cell["key"]): cell["total_ns"]
        for row in table["rows"]
        for cell in row["cells"]
    }
    assert values == expected


def test_pivot_table_has_the_cells_that_are_asked_for(run, built):
    arguments = ("stats", built(), "--by", "layer", "--pivot", "op", "--cells", "count")
    result = run(*arguments)

    head, *lines = [line.split() for line in result.out.splitlines()]
    assert head[0] == "layer"
    assert head[-1] == "all"
    assert lines[-1][0] == "all"
    n_ops = int((TRACE.spans.op >= 0).sum())
    assert int(lines[-1][-1].replace(",", "")) == n_ops
    fewer = run(*arguments, "--limit", "1")
    assert len(fewer.out.splitlines()) == 3
    assert "more rows" in fewer.err


def test_pivot_of_what_cannot_be_crossed_is_an_error(run, built):
    for by, across in (("op", "op"), ("source", "expert")):
        result = run("stats", built(), "--by", by, "--pivot", across)
        assert result.code == 2
        assert result.err


def test_cells_are_those_of_the_analysis():
    assert arguments.PIVOT_CELLS == PIVOT_MEASURES


def test_range_that_cuts_spans_says_how_they_count(run, built):
    cut = run("stats", built(), "--from", "0.5us", "--to", "300us")
    whole = run("stats", built())

    assert "cuts count whole" in cut.err
    pivot = ("stats", built(), "--pivot", "layer")
    assert "cuts count whole" in run(*pivot, "--from", "0.5us", "--to", "300us").err
    assert "cuts count whole" not in run(*pivot).err
    assert "cuts count whole" not in whole.err


def test_long_names_leave_room_for_figures_on_a_terminal(run, tmp_path, monkeypatch):
    name = "void at::native::" + "elementwise_kernel<" * 20
    path = tmp_path / "x.json"
    event = {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": 1, "dur": 2}
    path.write_text(json.dumps([event]))
    assert name in run("stats", path).out
    assert name not in run("info", path).out

    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setattr(output, "width", lambda: 160)

    short = run("stats", path).out
    assert name[:30] in short
    assert "total" in short
    assert name not in short
    assert name in run("stats", path, "--wide").out
