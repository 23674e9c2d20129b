"""Commands of the documents are run as they stand there, with files of their names."""

import contextlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

from bench_files import rows, written
from chrome_files import packed, sample
from ggscope.cli.arguments import COMMANDS, parse
from ggscope.cli.output import GOOD
from ggscope_capture.__main__ import parser as capture_parser
from log_files import log, random_requests
from op_files import graphs, scheduler
from recordings import recording
from storage_files import blkparse, filefrag, random_io
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "resources" / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`((?:ggscope|ggscope-capture) [^`\n]+)`")
REST = re.compile(r" [|>] ")
NOT_RUN = ("live", "bench", "machine")
"""Commands that need a running program, a window or seconds; these are only parsed."""


def commands_in(pattern: re.Pattern[str]) -> list[str]:
    """Return the distinct commands of both programs, without comments."""
    commands = {
        shlex.join(arguments)
        for path in DOCUMENTS
        for text in pattern.findall(path.read_text("utf-8"))
        for line in text.splitlines()
        if (arguments := shlex.split(REST.split(line)[0], comments=True))
        and arguments[0] in ("ggscope", "ggscope-capture")
    }
    return sorted(commands)


def can_run(command: str) -> bool:
    """Return whether a command ends by itself, without a window or another program."""
    program, first, *others = shlex.split(command)
    is_one = program == "ggscope" and first in COMMANDS and first not in NOT_RUN
    return is_one and "--follow" not in others


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file of each name that the commands take."""
    folder: Path = tmp_path_factory.mktemp("documents")
    experiment = SAMPLES / "moe-experiment"
    shutil.copytree(experiment, folder / "experiment")
    for path in experiment.glob("*.*"):
        shutil.copy(path, folder / path.name.replace("trace-1024", "run"))
    for name, origin in {
        "trace.bin": "tinyllama-256.bin",
        "huge.bin": "tinyllama-256.bin",
        "trace.ggmlviz": "llama.ggmlviz",
        "trace.json": "npu-prefill-decode.json",
    }.items():
        shutil.copy(SAMPLES / origin, folder / name)
    for name in ("before", "after", "old", "new", "t1", "t4"):
        recording(folder, name, whole_graphs=[])
    for name in ("runs-old", "runs-new", "FOLDER"):
        (folder / name).mkdir()
        recording(folder / name, "first")
        recording(folder / name, "second")
    requests = random_io(1, 40)
    for name, content in {
        "server.log": log(random_requests(1, 12)),
        "sched.txt": scheduler(graphs(1)),
        "blk.txt": blkparse(requests),
        "blkparse.txt": blkparse(requests),
        "map.txt": filefrag([(0, requests[0].sector // 8, 9000)]),
        "trace.json.gz": packed(sample()),
        "a.jsonl": written(rows(1), "jsonl"),
        "b.csv": written(rows(1), "csv"),
    }.items():
        (folder / name).write_bytes(content)
    return folder


BLOCKS = commands_in(BLOCK)


@pytest.mark.parametrize("command", [c for c in BLOCKS if can_run(c)])
def test_command_of_a_document_runs(run, files, tmp_path, monkeypatch, command) -> None:
    shutil.copytree(files, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    before = set(Path().rglob("*"))

    result = run(*shlex.split(command)[1:])

    assert result.code == GOOD, result.err
    assert result.out or set(Path().rglob("*")) > before


@pytest.mark.parametrize("command", [c for c in BLOCKS if not can_run(c)])
def test_other_commands_of_blocks_are_understood(command: str) -> None:
    program, *arguments = shlex.split(command)

    (parse if program == "ggscope" else capture_parser().parse_args)(arguments)


@pytest.mark.parametrize("command", commands_in(INLINE))
def test_options_of_commands_in_sentences_exist(command: str, capsys) -> None:
    """A sentence may leave out what a command needs, and names no option it lacks."""
    program, *arguments = shlex.split(command)

    with contextlib.suppress(SystemExit):
        (parse if program == "ggscope" else capture_parser().parse_args)(arguments)

    message = capsys.readouterr().err
    assert "unrecognized arguments" not in message
    assert not re.search(r"invalid choice: '[^A-Z]", message)  # CAPITALS stand for one
