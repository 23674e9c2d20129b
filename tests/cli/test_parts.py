"""Reading parts of a file, and files that would not fit, from the command line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ggscope.model.trace import RANGE_CODES
from ggscope.readers import plugins
from ggscope.readers.memory import LIMIT_VARIABLE

READER = '''
"""A reader that says what it costs and what it was asked for."""
import builders
import dataclasses
from ggscope.readers.api import Estimate, ReaderInfo, Sniff

class CountingReader:
    info = ReaderInfo("counting", "counts", (".count",), "Holds a number of records.")

    def sniff(self, head):
        return Sniff(90 if head.name.endswith(".count") else 0)

    def estimate(self, head):
        if b"unknown" in head.data:
            return None
        if b"fault" in head.data:
            raise ValueError("no number")
        n = int(head.data)
        return Estimate(n, 40 * n, 100 * n, True, True)

    def read(self, source, context):
        trace = builders.llama_like_trace(tokens=1, layers=1)
        info = dataclasses.replace(
            trace.info, reader_id="counting", options=dict(context.options)
        )
        return dataclasses.replace(trace, info=info)
'''
N = 1_000_000
MIB = 10
"""A limit that a tenth of the records fits into."""


@pytest.fixture
def big(tmp_path: Path, plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that needs ten times the memory that may be used."""
    (plugin_folder / "counting.py").write_text(READER)
    plugins.reload()
    monkeypatch.setenv(LIMIT_VARIABLE, str(MIB))
    path = tmp_path / "big.count"
    path.write_text(str(N))
    return path


@pytest.mark.parametrize("command", ["info", "check", "stats"])
def test_file_that_does_not_fit_is_an_error_that_names_the_ways_out(
    run: Callable, big: Path, command: str
) -> None:
    result = run(command, big)

    assert result.code == 1
    assert result.out == ""
    assert "1,000,000 records" in result.err
    assert "10.0 MiB are available" in result.err
    assert "--records 0:94000" in result.err
    assert "--names sampled" in result.err
    assert "--force" in result.err


def test_failure_is_named_in_json(run: Callable, big: Path) -> None:
    result = run("info", big, "--json")

    assert json.loads(result.out)["error"]["code"] == "too_large"


def test_the_part_that_is_offered_is_read(run: Callable, big: Path) -> None:
    result = run("info", big, "--records", "0:94000", "--json")

    assert result.code == 0
    assert json.loads(result.out)["options"] == {"range": "0:94000"}


@pytest.mark.parametrize("command", ["info", "check", "stats"])
def test_range_means_records_where_no_time_is_meant(
    run: Callable, big: Path, command: str
) -> None:
    assert run(command, big, "--range", "0:5%").code == 0


def test_part_is_named_among_the_problems(run: Callable, big: Path) -> None:
    result = run("check", big, "--records", "0:5%", "--names", "sampled", "--json")

    values = {w["code"]: w["message"] for w in json.loads(result.out)["warnings"]}
    assert values == {
        "range_read": "Only records 0:5% were read, as requested.",
        "names_sampled": "Only the names of a sample were read, as requested.",
    }


@pytest.mark.parametrize(
    "name", ["tinyllama-256.bin", "llama.ggmlviz", "npu-prefill-decode.json"]
)
def test_range_that_holds_all_records_leaves_nothing_out(
    run: Callable, name: str
) -> None:
    path = Path(__file__).parents[2] / "resources" / "samples" / name

    def facts(*arguments: str) -> dict:
        return json.loads(run("info", path, "--json", *arguments).out)

    def codes(values: dict) -> set[str]:
        return {w["code"] for w in values["warnings"]}

    whole, by_option, part = (
        facts(),
        facts("--records", "0:9999999"),
        facts("--records", "0:99"),
    )

    assert codes(by_option) == codes(whole)
    assert by_option["completeness"] == whole["completeness"]
    assert codes(part) & RANGE_CODES
    n = whole["counts"]["records"]
    assert facts("--records", f"0:{n}")["warnings"] == whole["warnings"]
    assert codes(facts("--records", f"0:{n - 1}")) & RANGE_CODES


def test_reader_that_knows_no_parts_says_so(run: Callable, built: Callable) -> None:
    result = run("check", built(), "--records", "0:5", "--names", "none", "--json")

    codes = {w["code"] for w in json.loads(result.out)["warnings"]}
    assert codes == {"range_ignored", "names_ignored"}


def test_forced_reading_reads_all(run: Callable, big: Path) -> None:
    result = run("info", big, "--force", "--names", "none", "--json")

    assert result.code == 0
    assert json.loads(result.out)["options"] == {"names": "none"}


@pytest.mark.parametrize("text", ["7", "9:3", "a:b", "0:200%"])
def test_bad_range_is_a_usage_error(run: Callable, big: Path, text: str) -> None:
    result = run("info", big, "--records", text)

    assert result.code == 2
    assert "--records" in result.err


@pytest.mark.parametrize("content", ["unknown", "fault"])
def test_reader_that_cannot_count_reads(run: Callable, big: Path, content: str) -> None:
    big.write_text(content)

    assert run("info", big).code == 0


def test_output_to_a_full_disk_is_a_message() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no device that is always full")

    with full.open("w") as out:
        done = subprocess.run(
            [sys.executable, "-m", "ggscope", "readers", "--json"],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 1
    assert "the output cannot be written: No space left" in done.stderr
    assert "internal error" not in done.stderr
