"""Calls of CUDA, followed while the hook writes them; the driver is a stand-in."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import cuda_programs
from call_facts import facts
from ggscope.live.calls_file import CallsSource
from ggscope.live.open_source import follow, path_to_follow
from ggscope.live.source import State
from ggscope.readers.registry import open_trace

PATIENCE_S = 60
CALLS = 14
"""Of a round."""


def waits_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cuda_programs.build(tmp_path_factory.mktemp("cuda"))


class Recorded:
    """A program that is recorded, and makes a round of calls for each `step`."""

    def __init__(self, programs: Path, out: Path) -> None:
        command = [sys.executable, "-m", "ggscope_capture", "cuda", "-o", str(out)]
        self.process = subprocess.Popen(
            [*command, "--", str(programs / "loads"), "dlsym", "steps"],
            env={**os.environ, "LD_LIBRARY_PATH": str(programs)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def step(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def recorded(programs: Path, tmp_path: Path) -> Iterator[Recorded]:
    program = Recorded(programs, tmp_path / "calls.jsonl")
    yield program
    program.process.kill()
    program.end()


@pytest.mark.parametrize("by_process", [False, True])
def test_calls_appear_while_the_program_makes_them(
    recorded: Recorded, tmp_path: Path, by_process: bool
) -> None:
    out = tmp_path / "calls.jsonl"
    target = str(recorded.process.pid if by_process else out)
    waits_for(lambda: path_to_follow(target))
    path = path_to_follow(target)
    assert path is not None
    assert path.parent.parent == tmp_path
    with closing(follow(path)) as source:
        assert type(source) is CallsSource

        def has_calls(n: int) -> bool:
            source.poll()
            return source.status().by_kind.get("calls") == n

        waits_for(lambda: has_calls(1))
        for round_number in range(1, 4):
            recorded.step()
            waits_for(lambda n=1 + round_number * CALLS: has_calls(n))
            trace = source.snapshot()
            assert trace.is_running
            assert trace.check() == []
        recorded.end()

        def is_over() -> bool:
            source.poll()
            return source.status().state is State.ENDED

        waits_for(is_over)
        assert source.status().recording.place == out
        assert source.status().restarts == 0
        trace = source.snapshot()
        assert not trace.is_running
    assert facts(trace) == facts(open_trace(out, reader_id="cuda-calls"))


def test_older_output_is_not_taken_for_the_one_that_is_written(
    programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calls.jsonl"
    Recorded(programs, out).end()
    assert path_to_follow(str(out)) == out
    again = Recorded(programs, out)
    waits_for(lambda: path_to_follow(str(out)) != out)
    again.end()
    assert path_to_follow(str(out)) == out
