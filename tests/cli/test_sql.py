"""``ggscope sql``."""

import csv
import io
import json
from pathlib import Path

import pytest

import sqlite_files
from recordings import recording

pytest.importorskip("duckdb")
SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "x.sqlite"
    target.write_bytes(sqlite_files.nsys(1).data)
    return target


def test_json_has_columns_and_rows(run, path):
    value = json.loads(run("sql", path, "select count(*) from spans", "--json").out)

    assert len(value["columns"]) == 1
    n = json.loads(run("info", path, "--json").out)["counts"]["spans"]
    assert value["rows"] == [[n]]
    assert value["truncated"] is False


def test_rows_of_json_are_printed_as_any_json(run, path):
    query = "select id, name, [1, null], {'a': 'ü\x7f'} from spans order by id"
    for sql, limit in (
        (query, ()),
        (query, ("--limit", "2")),
        ("select 1 where 0", ()),
    ):
        text = run("sql", path, sql, "--json", *limit).out
        value = json.loads(text)

        assert text == json.dumps(value, indent=2).replace("\x7f", "\\u007f") + "\n"
        assert list(value)[:5] == ["path", "columns", "types", "rows", "truncated"]
        assert value["truncated"] is bool(limit)
        if limit:
            assert len(value["rows"]) == 2


def test_table_and_csv_have_the_same_rows(run, path):
    query = "select op, count(*) as n from spans group by op order by n desc, op"

    text = run("sql", path, query).out
    rows = list(csv.reader(io.StringIO(run("sql", path, query, "--csv").out)))

    assert rows[0] == ["op", "n"]
    assert [line.split()[0] for line in text.splitlines()] == [
        r[0].split()[0] for r in rows
    ]
    assert text.splitlines()[1].split()[-1] == rows[1][-1]


def test_limit_says_that_there_is_more(run, path):
    query = "select id from spans order by id"

    assert "more than 2 rows" in run("sql", path, query, "--limit", "2").out
    rows = run("sql", path, query, "--limit", "2", "--csv").out.split()
    assert rows == ["id", "0", "1"]


def test_tables_are_listed(run, path):
    text = run("sql", path, "--tables").out
    value = json.loads(run("sql", path, "--tables", "--json").out)

    assert "spans:" in text
    assert {"spans", "accesses", "counters", "lanes", "strings"} <= value.keys()
    assert "duration_ns" in value["spans"]["columns"]


def test_errors_are_one_line(run, path):
    done = run("sql", path, "drop view spans")

    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "can only be read" in done.err
    assert run("sql", path).code == 2


def test_what_a_recording_left_out_is_reported_beside_the_rows(run, tmp_path):
    query = "select count(*) from spans"
    whole = recording(tmp_path, "whole")
    part = recording(tmp_path, "part", settings={"layers": [0, 1], "sample_every": 3})

    assert "only" not in run("sql", whole, query).err
    table, as_csv = run("sql", part, query), run("sql", part, query, "--csv")
    value = json.loads(run("sql", part, query, "--json").out)

    assert "only layers 0-1" in table.err
    assert "only 1 of 3 graphs" in table.err
    assert as_csv.err == table.err
    assert as_csv.out.splitlines() == ["count_star()", str(value["rows"][0][0])]
    about = json.loads(run("info", part, "--json").out)
    assert value["coverage"] == about["coverage"]
    assert all(warning in about["warnings"] for warning in value["warnings"])
    assert value["coverage"]["whole"] is False


def test_problems_of_a_file_are_counted_beside_the_rows(run, tmp_path):
    path = tmp_path / "cut.ggmlviz"
    path.write_bytes((SAMPLES / "llama.ggmlviz").read_bytes()[:3000])

    done = run("sql", path, "select severity, code from problems", "--json")

    value = json.loads(done.out)
    listed = [[w["severity"], w["code"]] for w in value["warnings"]]
    assert sorted(value["rows"]) == sorted(listed)
    losses = sum(severity == "data_loss" for severity, _ in listed)
    assert losses
    assert f"{losses} data loss" in done.err
