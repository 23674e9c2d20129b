"""``ggscope live``: figures of a program that runs, a line a second."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import cuda_files
import log_files
from ggscope.cli.arguments import parse
from ggscope.cli.window import follow_where_configured
from ggscope.gui.single_instance.client import make_request
from ggscope.live.open_source import follow
from ggscope_capture.ring_format import FrameType
from ring_writer import Writer, frame
from ring_writer import text as told_text
from support import ROOT

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
WRITER = Path(__file__).parents[1] / "ring_writer.py"
KEYS = {
    "records",
    "op_records",
    "records_per_s",
    "lost",
    "lag_ms",
    "state",
    "fill",
    "restarts",
}
KEYS |= {"resident_bytes", "model_bytes", "read_bytes", "major_faults"}
KEYS |= {"self_test", "backends", "tokens_per_s", "lag_at_least_ms", "owner"}
KEYS |= {"requests", "calls"}


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_live_prints_a_line_a_second_until_the_program_ends(run, tmp_path):
    path = tmp_path / "ring"
    command = [sys.executable, str(WRITER), str(path), "--rate", "40000"]
    command += ["--seconds", "2", "--megabytes", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        command_result = run("live", str(path), "--json", "--seconds", "60")
        data = json.loads(writer.stdout.read())

    result = lines(command_result.out)
    assert command_result.code == 0
    assert result[-1]["state"] == "ended"
    assert result[-1]["records"] == data["written"]
    assert result[-1]["lost"] == data["dropped"]
    assert all(line.keys() == KEYS for line in result)
    assert (result[-1]["self_test"], result[-1]["backends"]) == (None, None)
    assert "is not there yet" in command_result.err


def test_live_lists_running_programs(run, tmp_path, monkeypatch):
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    writer = Writer(tmp_path / "ggscope-7-aa")

    result, listed = run("live", "--list", "--json"), run("live", "--list").out

    rows = {row["pid"]: row for row in json.loads(result.out)}
    own = rows[os.getpid()]
    assert result.code == 0
    assert own["tracing"] == "traced"
    assert own["target"] == str(os.getpid())
    assert own["restart_command"] is None
    parts = [line.split() for line in listed.splitlines()]
    assert parts[0] == ["pid", "program", "tracing", "command"]
    assert ["traced"] in [row[2:3] for row in parts if row[0] == str(os.getpid())]
    writer.close()


def test_live_ends_when_the_time_is_over(run, tmp_path):
    result = run("live", str(tmp_path / "nothing"), "--json", "--seconds", "0.2")

    (line,) = lines(result.out)
    assert result.code == 0
    assert line["state"] == "waiting"
    assert line["records"] == 0
    assert line["lag_ms"] is None


def test_script_that_waits_for_any_program_gets_its_lines(run, tmp_path, monkeypatch):
    monkeypatch.delenv("GGSCOPE_RING", raising=False)
    result = run("live", str(os.getpid()), "--json", "--seconds", "0.2")

    (line,) = lines(result.out)
    assert result.code == 0
    assert line.keys() == KEYS
    assert (line["records"], line["state"]) == (0, "waiting")
    assert f"process {os.getpid()} is not traced yet" in result.err


def test_live_counts_calls_of_cuda_until_their_last_line(run, tmp_path):
    path = tmp_path / "calls.jsonl"
    calls = cuda_files.random_calls(1, 40)
    made = cuda_files.own_hook(calls)
    end = cuda_files.own_hook_end(cuda_files.START_US + 10**7, len(made))
    path.write_text("\n".join([*made, end, ""]))

    result = run("live", str(path), "--json", "--seconds", "30")

    assert result.code == 0
    last = lines(result.out)[-1]
    assert last.keys() == KEYS
    assert (last["state"], last["calls"]) == ("ended", len(calls))
    assert last["records"] == len(made) + 1


def test_live_refuses_calls_of_another_form(run, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(cuda_files.text("probes"))

    result = run("live", str(path), "--seconds", "30")

    assert (result.code, result.out) == (1, "")
    assert "open the file when the program has ended" in result.err


def test_process_that_is_not_there_is_not_waited_for(run):
    result = run("live", "4000000001")

    assert result.code == 1
    assert result.out == ""
    assert "4000000001" in result.err


def test_live_may_take_longer_than_ten_minutes(capsys):
    assert parse(["live", "ring", "--seconds", "3600"]).seconds == 3600
    with pytest.raises(SystemExit):
        parse(["live", "ring", "--seconds", "1e12"])
    assert "from 0.1 to 31622400" in capsys.readouterr().err


def test_live_follows_the_ring_that_the_environment_names(run, tmp_path, monkeypatch):
    path = tmp_path / "ring"
    writer = Writer(path)
    writer.graph()
    writer.end()
    monkeypatch.setenv("GGSCOPE_RING", str(path))

    result = run("live", "--seconds", "30")

    assert "400 ops" in result.out.splitlines()[-1].split(" · ")
    assert "the program has ended" in result.err


def ring_with_facts(path: Path) -> str:
    writer = Writer(path)
    check = struct.pack("<IIIIQQQQ", 0, 1, 1, 4, 400, 396, 1, 0)
    card = told_text("RPC0") + told_text("RPC0[a:1]") + told_text("a card")
    with path.with_name(f"{path.name}.defs").open("ab") as file:
        file.write(frame(FrameType.CHECK, check))
        file.write(frame(FrameType.BACKEND, struct.pack("<IIQ", 2, 0, 9) + card))
    for backend in (2, 2, 0):
        writer.graph(backend=backend)
    writer.end()
    return str(path)


def test_live_shows_the_self_test_and_the_backends_as_the_window_does(run, tmp_path):
    (line,) = lines(run("live", ring_with_facts(tmp_path / "a"), "--json").out)
    out = run("live", ring_with_facts(tmp_path / "b")).out.strip()
    window = follow(Path(ring_with_facts(tmp_path / "c")))
    window.poll()
    texts = window.status().run_texts()
    window.close()

    assert line["self_test"] == "graph 0: 396 of 400 expected records seen"
    assert line["backends"] == "RPC0 on RPC0[a:1] (a card): 2 graphs; unknown: 1 graph"
    assert texts == (
        f"self-test: {line['self_test']}",
        f"backends: {line['backends']}",
    )
    assert out.endswith(" · ".join(("", *texts)))


def test_live_says_of_a_foreign_file_that_it_is_no_ring(run, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a ring at all")

    result = run("live", str(path))

    assert result.code == 1
    assert "not a ring" in result.err


def test_live_says_of_a_pipe_that_it_is_no_ring(tmp_path):
    """In a process of its own, which can be ended: opening a pipe waits for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "ggscope", "live", str(pipe), "--seconds", "0.2"]

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert "not a ring" in done.stderr


def test_live_saves_what_was_recorded(run, tmp_path):
    path, target = tmp_path / "ring", tmp_path / "out.bin"
    writer = Writer(path)
    writer.graph()

    result = run("live", str(path), "--seconds", "0.2", "--save", str(target))

    assert result.code == 0
    assert f"saved as {target}: 400 ops, none lost." in result.err
    assert json.loads(target.with_suffix(".json").read_text())["records"] == 400
    assert list(tmp_path.glob("*.recording")) == []


def test_live_that_recorded_nothing_saves_nothing(run, tmp_path):
    target = tmp_path / "out.bin"
    result = run(
        "live", str(tmp_path / "ring"), "--seconds", "0.1", "--save", str(target)
    )

    assert result.code == 1
    assert "nothing has been recorded yet" in result.err
    assert not target.exists()


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        (["--live"], ""),
        (["-l", "1234"], "1234"),
        (["--live", "a ring"], "a ring"),
        (["run.bin"], None),
    ],
)
def test_option_of_the_window_names_what_is_followed(command_line, expected):
    arguments = parse(command_line)

    assert arguments.command == "open"
    assert arguments.live == expected
    assert (make_request([], arguments) is None) == (expected is not None)


def test_first_line_of_a_file_has_no_rate_of_what_was_there(run, tmp_path):
    """A file of 36 events that nobody writes: nothing came in that time."""
    sample = ROOT / "resources" / "samples" / "llama-demo.ggmlviz"
    path = tmp_path / "old.ggmlviz"
    path.write_bytes(sample.read_bytes())

    result = lines(run("live", str(path), "--json", "--seconds", "2").out)

    assert {line["records"] for line in result[1:]} == {36}
    assert {line["records_per_s"] for line in result} <= {0.0, None}


def test_log_is_followed_by_lines_and_requests(run, tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(log_files.random_requests(1, 5)))

    result = run("live", str(path), "--json", "--seconds", "0.2")

    line = lines(result.out)[-1]
    assert line["requests"] == 5
    assert line["records"] == path.read_bytes().count(b"\n")
    assert "5 requests" in run("live", str(path), "--seconds", "0.2").out


@pytest.mark.parametrize(
    "command_line",
    [["--follow", "a.log"], ["a.log", "--follow"], ["open", "a.log", "--follow"]],
)
def test_option_follows_the_file_named(command_line):
    arguments = parse(command_line)
    arguments.configuration = None
    follow_where_configured(arguments)

    assert arguments.live == "a.log"
    assert arguments.files == []


def test_option_follows_one_file_alone(run):
    result = run("open", "a.log", "b.log", "--follow")

    assert result.code == 2
    assert "one file" in result.err
