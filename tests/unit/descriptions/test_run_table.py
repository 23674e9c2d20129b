"""The table of runs: what differs, and what is not known."""

from dataclasses import replace
from pathlib import Path

import pytest

from ggscope.analysis.completeness.coverage import Cause, Omission
from ggscope.descriptions.runs import (
    command_differences,
    proposed_sides,
    run_columns,
    run_rows,
    shown_families,
    side_title,
)
from ggscope.run_summaries import RunSummary

RUN = RunSummary(Path("/runs/a.bin"), 100, 1_700_000_000_000_000_000)
READ = RunSummary(
    Path("/runs/b.bin"), 50, 0, facts={"began": "2026-11-26 21:16:18+00:00"},
    families=(("matmul", 300), ("rope", 100)), ticks_per_s=1e9, omissions=(),
    is_read=True, generated_per_s=2500.0, generated=3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("commands", "differences"),
    [
        (["p -t 1", "p -t 2"], ["-t 1", "-t 2"]),
        (["p -t 1 -n 4", "p -n 4 -t 1"], ["", ""]),
        (["p -t 1 --flag", "p -t 1"], ["--flag", "no --flag"]),
        (["p -p hello world -n 2", "p -p hello there -n 2"],
         ["-p hello world", "-p hello there"]),
        (["p -m /x/a.gguf", "p -m /y/b.gguf"], ["-m a.gguf", "-m b.gguf"]),
        (["/old/bin/p -t 1", "/new/bin/p -t 1"], ["old", "new"]),
        (["/bin/p -t 1", "/bin/q -t 1"], ["p", "q"]),
        (["p -t -1", "p -t 1"], ["-t -1", "-t 1"]),
        (["p -t 1", "", "p -t 2"], ["-t 1", "", "-t 2"]),
        (["p -t 1", ""], ["", ""]),
        (["p -a 1 -b 1 -c 1 -d 1", "p -a 2 -b 2 -c 2 -d 2"],
         ["-a 1 -b 1 -c 1", "-a 2 -b 2 -c 2"]),
        ([], []),
    ],
)  # fmt: skip
def test_differences_are_the_options_that_others_lack(commands, differences) -> None:
    assert command_differences(commands) == differences


def test_columns_are_unique_and_every_row_has_them() -> None:
    keys = [column.key for column in run_columns([RUN, READ])]

    assert len(set(keys)) == len(keys)
    for row in run_rows(Path("/runs"), [RUN, READ]):
        assert set(keys) == set(row)


def test_families_are_those_of_any_run_in_one_order() -> None:
    assert shown_families([RUN]) == ()
    assert shown_families([RUN, READ]) == ("matmul", "rope")


def test_unknown_pending_zero_and_not_recorded_are_distinguished() -> None:
    filtered = Omission(Cause.OPS_FILTERED, detail="MUL_MAT")
    partial = RunSummary(
        Path("/runs/c.bin"), 1, 0, families=(("matmul", 5),), ticks_per_s=1e9,
        omissions=(filtered,), is_read=True,
    )  # fmt: skip
    whole = RunSummary(
        Path("/runs/d.bin"), 1, 0, families=(("matmul", 5),), ticks_per_s=1e9,
        omissions=(), is_read=True,
    )  # fmt: skip
    failed = RunSummary(Path("/runs/e.bin"), 1, 0, error="damaged", is_read=True)
    rows = run_rows(Path("/runs"), [RUN, READ, partial, whole, failed])

    texts = [row["time_rope"].text for row in rows]
    assert texts == ["…", "100 ns", "–", "0 ns", "N/A"]
    assert [row["time_rope"].sort for row in rows] == [None, 100, None, 0, None]
    states = [row["recording"].text for row in rows]
    assert states == ["…", "complete", "partial", "complete", "error"]
    assert "MUL_MAT" in rows[2]["recording"].tip
    assert rows[4]["run"].is_caution


def test_date_is_that_of_the_run_else_that_of_the_file() -> None:
    file, run = (row["date"] for row in run_rows(Path("/runs"), [RUN, READ]))

    assert file.text == "~2023-11-14 22:13"
    assert file.sort == 1_700_000_000
    assert run.text == "2026-11-26 21:16"


def test_share_of_a_family_is_that_of_all_its_ops() -> None:
    row = run_rows(Path("/runs"), [READ])[0]

    assert row["time_matmul"].share == 0.75
    assert row["generated_per_s"].text == "2,500"
    assert row["prompt"].text == "N/A"


@pytest.mark.parametrize(
    ("runs", "sides"),
    [
        ((("a/1", "p"), ("a/2", "p"), ("b/1", "p")), "AAB"),
        ((("1", "p -t 2"), ("2", "p -t 1"), ("3", "p -t 2")), "ABA"),
        ((("a/1", "p -t 1"), ("a/2", "p -t 2"), ("b/1", "p -t 2")), "AAB"),
        ((("a/1", "p"), ("b/1", "p"), ("c/1", "p")), "---"),
        ((("1", "p -t 1"), ("2", "p -t 2"), ("3", "p -t 3")), "---"),
        ((("1", "p"), ("2", "p"), ("3", "p")), "---"),
        ((("a/1", "p"), ("b/bad", ""), ("b/1", "p"), ("a/2", "p")), "A-BA"),
    ],
)
def test_sides_are_two_folders_or_two_command_lines(runs, sides) -> None:
    """The first run is of A; nothing is proposed of more kinds, or of one."""
    summaries = [
        replace(
            RUN, path=Path("/runs") / name, facts={"command": command},
            error="damaged" if name.endswith("bad") else "",
        )
        for name, command in runs
    ]  # fmt: skip

    proposed = proposed_sides(Path("/runs"), summaries)

    assert "".join(side or "-" for side in proposed) == sides


def test_side_is_called_as_its_folder_or_its_first_run() -> None:
    a, b = Path("/runs/a/1.bin"), Path("/runs/b/1.bin")

    assert side_title([a]) == "1.bin"
    assert side_title([a, a.with_name("2.bin")]) == "a"
    assert side_title([a, b]) == "1.bin …"
