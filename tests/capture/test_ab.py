"""Two commands in turns: order, figures, and what may be called a difference."""

import itertools
import json
import shlex
import sys
from collections.abc import Sequence
from math import comb
from pathlib import Path

import numpy as np
import pytest

from ggscope.descriptions.runs import command_differences
from ggscope.readers.discovery import run_folder
from ggscope.run_summaries import quick_summary
from ggscope_capture import ab, targets
from ggscope_capture.__main__ import main


class Machine:
    """Commands of made-up speed on a machine that gets slower all the time."""

    def __init__(self, speeds: dict[str, float], noise: float) -> None:
        self.speeds, self.order = speeds, list[str]()
        self.noise = np.random.default_rng(3).normal(1, noise, 1000)

    def __call__(self, command: Sequence[str]) -> tuple[float, str]:
        self.order.append(command[0])
        n = len(self.order)
        return self.speeds[command[0]] * self.noise[n] / (1 + n / 200), "tokens/s"


def test_same_against_same_is_no_difference() -> None:
    machine = Machine({"x": 100, "y": 100}, 0.01)

    comparison = ab.compare(["x"], ["y"], rounds=20, seed=1, measure=machine)

    assert comparison.verdict == "no difference beyond the noise"


@pytest.mark.parametrize(("speed", "word"), [(110, "faster"), (92, "slower")])
def test_what_is_larger_than_the_noise_is_reported(speed: float, word: str) -> None:
    machine = Machine({"x": 100, "y": speed}, 0.01)

    comparison = ab.compare(["x"], ["y"], rounds=12, seed=1, measure=machine)

    assert comparison.verdict == f"B is {word}"
    assert comparison.difference.median == pytest.approx(speed - 100, abs=1.5)
    assert comparison.difference.low < speed - 100 < comparison.difference.high
    assert comparison.noise.low < 0.5 < comparison.noise.high + 1


def test_order_is_random_and_repeats_with_its_seed() -> None:
    orders = []
    for seed in (1, 1, 2):
        machine = Machine({"x": 1, "y": 1}, 0)
        ab.compare(["x"], ["y"], rounds=9, seed=seed, measure=machine)
        orders.append(machine.order)

    assert orders[0] == orders[1] != orders[2]
    rounds = ["".join(orders[0][i : i + 3]) for i in range(2, 29, 3)]
    assert set(rounds) == {"xxy", "xyx", "yxx"}


@pytest.mark.parametrize("n", [1, 5, 6, 8, 20, 41])
def test_interval_is_the_exact_one_of_order_statistics(n: int) -> None:
    a = np.full(n, 100.0)
    b = 100 + np.arange(n, dtype=float)

    difference = ab.difference(a, b)

    outside = round(difference.low)
    within = sum(comb(n, k) for k in range(outside + 1, n - outside)) / 2**n
    assert difference.coverage == pytest.approx(within)
    if n < 6:
        assert (difference.low, difference.high) == pytest.approx((0, n - 1))
    else:
        wider = within - 2 * comb(n, outside + 1) / 2**n
        assert within >= 0.95 > wider


def test_few_rounds_show_nothing() -> None:
    machine = Machine({"x": 1, "y": 9}, 0)

    comparison = ab.compare(["x"], ["y"], rounds=3, seed=1, measure=machine)

    assert comparison.verdict.startswith("too few rounds")


PERF = (
    "prompt eval time =  9.0 ms / 12 tokens ( 0.7 ms per token, 1333.33 tokens per "
    "second)\n       eval time =  50.0 ms / 31 runs ( 1.6 ms per token,   620.00 "
    "tokens per second)\n"
)


@pytest.mark.parametrize(
    ("output", "errors", "speed"),
    [
        ("text", PERF, 620.0),
        ("text", "nothing", None),
        ('[{"n_gen": 0, "avg_ts": 900.0}, {"n_gen": 32, "avg_ts": 41.5}]', "", 41.5),
        ("[broken", "", None),
        ('[1, {"avg_ts": "x"}]', "", None),
    ],
)
def test_speed_is_what_the_program_says(
    output: str, errors: str, speed: float | None
) -> None:
    assert ab.tokens_per_second(output, errors) == speed


def test_units_that_differ_are_of_one_command_or_of_the_two() -> None:
    runs = itertools.count()

    def at_times(command: Sequence[str]) -> tuple[float, str]:
        return 1.0, "tokens/s" if command == ["x"] or next(runs) % 3 else "runs/s"

    with pytest.raises(ab.AbError) as raised:
        ab.compare(["x"], ["y"], rounds=20, seed=1, measure=at_times)
    assert str(raised.value).startswith("B reports tokens per second in some")

    def apart(command: Sequence[str]) -> tuple[float, str]:
        return 1.0, "tokens/s" if command == ["x"] else "runs/s"

    with pytest.raises(ab.AbError) as raised:
        ab.compare(["x"], ["y"], rounds=20, seed=1, measure=apart)
    assert "runs/s and tokens/s" in str(raised.value)


def test_command_compares_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; sys.stderr.write('eval time = 1 ms ({} tokens per second)')"
    a, b = (shlex.join([sys.executable, "-c", code.format(n)]) for n in (50, 60))

    status = main(["ab", "-a", a, "-b", b, "--rounds", "6", "--json"])

    data = json.loads(capsys.readouterr().out)
    assert status == 0
    assert data["a"]["values"] == data["again"]["values"] == [50.0] * 6
    assert data["difference"]["median_percent"] == pytest.approx(20)
    assert data["verdict"] == "B is faster"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("false", "false exited with code 1"),
        ("no-such-llama", "cannot be started"),
        ("'", "-b: No closing quotation"),
        ("", "give two commands"),
    ],
)
def test_what_fails_is_named(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ab", "-a", "true", "-b", command, "--rounds", "1"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("n", [1, 5, 6])
def test_too_few_rounds_are_reported_before_anything_runs(
    n: int, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["ab", "-a", "false", "-b", "false", "--rounds", str(n)])

    *before, failed = capsys.readouterr().err.splitlines()
    has_verdict = ab.difference(np.ones(n), np.ones(n)).coverage >= 0.95
    assert status == 1
    assert (
        "false exited with code 1" in failed
    )  # the first run: none came before the note
    assert len(before) == (0 if has_verdict else 1)
    assert all(f"--rounds {ab.MIN_ROUNDS}" in line for line in before)
    assert (n >= ab.MIN_ROUNDS) == has_verdict


def test_recordings_of_both_commands_open_as_a_set(
    npm_llama: targets.Target,
    tiny_models: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "a set"
    a, b = (
        shlex.join(npm_llama.command(tiny_models["nano"], "sun", tokens=n, threads=1))
        for n in (3, 2)
    )
    options = ["--rounds", "1", "--traces", str(folder), "--recordings", "2"]

    assert main(["ab", "-a", a, "-b", b, *options, "--json"]) == 0

    data = json.loads(capsys.readouterr().out)
    places = {name: Path(place) for name, place in data["traces"].items()}
    assert places == {"a": folder / "a", "b": folder / "b"}
    runs = run_folder(folder).runs
    assert [run.path.relative_to(folder).as_posix() for run in runs] == [
        "a/1.bin", "a/2.bin", "b/1.bin", "b/2.bin",
    ]  # fmt: skip
    commands = [quick_summary(run).command for run in runs]
    assert command_differences(commands) == ["-n 3", "-n 3", "-n 2", "-n 2"]


def test_recording_of_each_is_a_file(tmp_path: Path) -> None:
    recordings = ab.Recordings(tmp_path)

    results = recordings.record(["true"], ["no-such-llama"])

    assert recordings.places() == {
        "a": str(tmp_path / "a.bin"), "b": str(tmp_path / "b.bin"),
    }  # fmt: skip
    assert all(text.startswith("not traced: ") for text in results.values())


def test_folders_with_files_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "b" / "old.bin"
    other.parent.mkdir()
    other.write_bytes(b"old")
    options = ["--traces", str(tmp_path), "--recordings", "2"]

    status = main(["ab", "-a", "false", "-b", "false", "--rounds", "6", *options])

    assert status == 1
    assert str(other.parent) in capsys.readouterr().err
    assert other.read_bytes() == b"old"


@pytest.mark.parametrize("options", [["--recordings", "2"], ["--recordings", "0"]])
def test_recordings_need_a_folder_and_a_number(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ab", "-a", "false", "-b", "false", *options]) == 1
    assert "--recordings" in capsys.readouterr().err
