"""``ggscope convert``: files written whole, never over others unasked."""

import csv
import gzip
import json
import re
from pathlib import Path

import pytest

from ggscope import assets
from statements import new_statement, new_statements
from support import ROOT
from tensor_files import encode, llama_trace
from token_files import corpus_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of three tokens."""
    path = tmp_path / "run.bin"
    path.write_bytes(encode(llama_trace(3), "256"))
    return path


def test_real_trace_is_converted_to_itself(run, tmp_path) -> None:
    path = corpus_trace("c26d86e7")

    result = run("convert", path, "--to", "token-json", "-o", tmp_path / "out")

    assert result.code == 0, result.err
    assert (tmp_path / "out" / "token-00000.json").read_bytes() == path.read_bytes()
    assert "582 entries" in result.err


def test_every_token_gets_a_file_and_json_shows_them(run, trace, tmp_path) -> None:
    folder = tmp_path / "a" / "b"

    result = run("convert", trace, "--to", "token-json", "-o", folder, "--json")

    data = json.loads(result.out)
    names = ["token-00000.json", "token-00001.json", "token-00002.json"]
    assert result.code == 0
    assert sorted(p.name for p in folder.iterdir()) == names
    assert data["outputs"] == [str(folder / name) for name in names]
    assert data["schema"] == "256"
    for name, count in zip(names, data["entries"], strict=True):
        written = json.loads((folder / name).read_text())
        assert len(written["entries"]) == count
        assert written["metadata"]["format_version"] == "256-byte"


def test_present_files_are_replaced_only_with_force(run, trace, tmp_path) -> None:
    present = tmp_path / "token-00001.json"
    present.write_text("mine")
    arguments = ("convert", trace, "--to", "token-json", "-o", tmp_path)

    refused = run(*arguments)

    assert refused.code == 1
    assert "--force" in refused.err
    assert present.read_text() == "mine"
    assert not (tmp_path / "token-00000.json").exists()
    forced = run(*arguments, "--force")
    assert forced.code == 0
    assert new_statement(forced.err, refused.err)
    assert json.loads(present.read_text())["token_id"] == 1


def test_input_is_never_written_over(run, tmp_path) -> None:
    path = tmp_path / "token-00000.json"
    path.write_bytes(corpus_trace("71099aab").read_bytes())
    before = path.read_bytes()

    result = run("convert", path, "--to", "token-json", "-o", tmp_path, "--force")

    assert result.code == 1
    assert "destroy" in result.err
    assert path.read_bytes() == before


def test_schema_is_chosen_and_losses_are_reported(run, trace, tmp_path) -> None:
    result = run(
        "convert", trace, "--to", "token-json", "-o", tmp_path / "o", "--schema", "128"
    )

    first = json.loads((tmp_path / "o" / "token-00000.json").read_text())
    assert result.code == 0
    assert "are left out" in result.err
    assert "tensor_name" in first["entries"][0]
    assert "format_version" not in first["metadata"]


def test_other_traces_are_refused_with_a_message(run, built, tmp_path) -> None:
    folder = tmp_path / "o"

    result = run("convert", built(), "--to", "token-json", "-o", folder)

    assert result.code == 1
    assert "tensor accesses" in result.err


def test_part_of_a_trace_is_converted(run, trace, tmp_path) -> None:
    folder = tmp_path / "o"

    result = run(
        "convert", trace, "--to", "token-json", "-o", folder, "--records", "0:5"
    )

    entries = json.loads((folder / "token-00000.json").read_text())["entries"]
    assert result.code == 0
    assert len(entries) == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "token-json"),
        ("-o", "x"),
        ("--to", "xml", "-o", "x"),
        ("--to", "token-json", "-o", "x", "--schema", "64"),
    ],
)
def test_missing_and_unknown_words_are_usage_errors(run, trace, arguments) -> None:
    assert run("convert", trace, *arguments).code == 2


def test_file_in_place_of_the_folder_is_reported(run, trace, tmp_path) -> None:
    (tmp_path / "x").write_text("")

    result = run("convert", trace, "--to", "token-json", "-o", tmp_path / "x")

    assert result.code == 1
    assert str(tmp_path / "x") in result.err


# -- one file for other viewers ----------------------------------------------------


@pytest.mark.parametrize(
    "to", ["chrome-json", "folded", "csv", "tsv", "json", "ggmlviz", "tensor-256"]
)
def test_file_for_other_viewers_is_written_and_reported(
    run, trace, tmp_path, to
) -> None:
    target = tmp_path / "out"

    result = run("convert", trace, "--to", to, "-o", target, "--json")

    data = json.loads(result.out)
    assert result.code == 0, result.err
    assert data["output"] == str(target)
    assert data["spans"] > 0
    match = re.search(r"(\d+)(?: of \d+)? spans written to (.+)\.\n", result.err)
    assert match is not None
    assert match.groups() == (str(data["spans"]), str(target))
    for sentence in data["losses"]:
        assert f"note: {sentence}" in result.err
    assert target.stat().st_size


@pytest.mark.parametrize("name", ["whisper.ggmlviz", "llama-demo.ggmlviz"])
def test_trace_without_ops_gives_no_file_of_ops(run, tmp_path, name) -> None:
    target = tmp_path / "out.bin"
    sample = assets.path("samples") / name

    result = run("convert", sample, "--to", "tensor-256", "-o", target)

    assert result.code == 1
    assert "holds ops alone" in result.err
    assert "written" not in result.err
    assert not target.exists()


def test_name_with_gz_is_packed(run, trace, tmp_path) -> None:
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"

    for target in (plain, packed):
        assert run("convert", trace, "--to", "chrome-json", "-o", target).code == 0

    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_file_that_is_there_is_replaced_only_with_force(run, trace, tmp_path) -> None:
    target = tmp_path / "out.json"
    target.write_text("mine")
    command = ("convert", trace, "--to", "chrome-json", "-o", target)

    refused = run(*command)
    text = target.read_text()
    replaced = run(*command, "--force")

    assert (refused.code, text) == (1, "mine")
    assert "--force" in refused.err
    assert replaced.code == 0
    assert json.loads(target.read_text())["traceEvents"]


def test_part_is_counted_as_such(run, trace, tmp_path) -> None:
    target = tmp_path / "out.json"
    command = (
        "convert",
        trace,
        "--to",
        "chrome-json",
        "-o",
        target,
        "--force",
        "--json",
    )
    whole = json.loads(run(*command).out)["spans"]

    matrices = run(*command, "--where", "op=MUL_MAT")
    early = run(*command, "--range", "0:10us")

    n, m = (json.loads(result.out)["spans"] for result in (matrices, early))
    assert 0 < n < whole
    assert 0 < m < whole
    assert f"{n:,} of {whole:,} spans written to {target}." in matrices.err
    refused = run(*command[:-2])
    assert new_statements(run(*command).err, refused.err)


def test_token_files_take_whole_traces(run, trace, tmp_path) -> None:
    result = run(
        "convert",
        trace,
        "--to",
        "token-json",
        "-o",
        tmp_path / "a",
        "--where",
        "op=ADD",
    )

    assert result.code == 2
    assert "leave out --range and --where" in result.err
    assert not (tmp_path / "a").exists()


def test_perfetto_trace_that_is_too_large_becomes_several(
    run, trace, tmp_path, monkeypatch
) -> None:
    from ggscope.exporters import perfetto

    whole = tmp_path / "run.pftrace"
    arguments = ("convert", trace, "--to", "perfetto", "-o")
    alone = run(*arguments, whole)
    limit = whole.stat().st_size * 3 // 4
    monkeypatch.setattr(perfetto, "MAX_BYTES", limit)
    (tmp_path / "b.2.pftrace").write_text("mine")

    result = run(*arguments, tmp_path / "a.pftrace")
    data = json.loads(run(*arguments, tmp_path / "c.pftrace", "--json").out)
    refused = run(*arguments, tmp_path / "b.pftrace")
    piped = run(*arguments, "/dev/null", "--force")

    files = sorted(tmp_path.glob("a.*.pftrace"), key=lambda p: int(p.suffixes[0][1:]))
    assert result.code == 0, result.err
    assert result.out.splitlines() == [str(path) for path in files]
    assert len(files) > 1
    assert all(path.stat().st_size <= limit for path in files)
    assert not (tmp_path / "a.pftrace").exists()
    assert data["outputs"] == [str(p.with_name("c" + p.name[1:])) for p in files]
    assert f"{data['spans']:,} spans written to {whole}." in alone.err
    assert new_statements(result.err, alone.err)
    assert refused.code == 1
    assert "b.2.pftrace exists already" in refused.err
    assert not (tmp_path / "b.1.pftrace").exists()
    assert piped.code == 1
    assert "larger than 4 GiB" in piped.err
    assert new_statements(result.err, alone.err)


def test_minus_is_the_output_for_another_program(shell, trace, tmp_path) -> None:
    target = tmp_path / "a.csv"

    piped = shell("convert", trace, "--to", "csv", "-o", "-")
    output = shell("convert", trace, "--to", "csv", "-o", target)

    assert piped.code == output.code == 0
    assert piped.out == target.read_text("utf-8")
    assert " spans written to the output." in piped.err
    assert not (tmp_path / "-").exists()


def test_minus_is_refused_where_the_output_cannot_be_a_file(run, trace) -> None:
    tokens = run("convert", trace, "--to", "token-json", "-o", "-")
    result = run("convert", trace, "--to", "csv", "-o", "-", "--json")

    assert tokens.code == result.code == 2
    assert new_statement(tokens.err, result.err)
    assert new_statement(result.err, tokens.err)
    assert "-o - cannot be used" in tokens.err


def test_minus_is_refused_for_a_terminal(run, trace, monkeypatch) -> None:
    from ggscope.cli import output

    piped = run("convert", trace, "--to", "csv", "-o", "-")
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    shown = run("convert", trace, "--to", "csv", "-o", "-")

    assert (piped.code, shown.code) == (0, 2)
    assert len(new_statements(shown.err, piped.err)) >= 2


def test_longest_spans_are_listed_by_the_command_line(run, tmp_path):
    sample = ROOT / "resources" / "samples" / "tinyllama-256.bin"
    target = tmp_path / "longest.csv"

    result = run(
        "convert", sample, "--to", "csv", "--sort", "duration", "--limit", "10",
        "--where", "op=MUL_MAT", "-o", target,
    )  # fmt: skip

    rows = list(csv.DictReader(target.read_text().splitlines()))
    lengths = [int(row["duration_ns"]) for row in rows]
    assert result.code == 0
    assert len(rows) == 10
    assert lengths == sorted(lengths, reverse=True)
    assert {row["op"] for row in rows} == {"MUL_MAT"}
    (longest,) = json.loads(
        run("stats", sample, "--where", "op=MUL_MAT", "--json").out
    )["rows"]
    assert lengths[0] == longest["max"]


@pytest.mark.parametrize("form", ["chrome-json", "token-json", "tensor-256"])
def test_rows_are_chosen_of_tables_only(run, tmp_path, form):
    sample, target = (
        ROOT / "resources" / "samples" / "tinyllama-256.bin",
        tmp_path / "out",
    )

    result = run("convert", sample, "--to", form, "--limit", "3", "-o", target)

    assert result.code == 2
    assert not target.exists()
