"""Names and paths longer than the system takes are said to be so, wherever given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensor_files import encode, llama_trace

Run = Callable[..., Any]

NAME = "n" * 300
"""Longer than a name may be (255 bytes)."""
PATH = "/".join(["d" * 200] * 25)
"""Longer than a path may be (4,096 bytes), each name of it is not."""


@pytest.fixture(params=[NAME, PATH], ids=["name", "path"])
def long(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.bin"
    path.write_bytes(encode(llama_trace(3), "256"))
    return path


@pytest.mark.parametrize(
    "command",
    [
        "open",
        "bench",
        "info",
        "check",
        "stats",
        "show",
        "hot",
        "residency",
        "thumbnail",
    ],
)
def test_file_with_a_long_name_is_refused_in_a_sentence(
    run: Run, long: Path, tmp_path: Path, command: str
) -> None:
    target = [tmp_path / "thumbnail.png"] if command == "thumbnail" else []

    result = run(command, long, *target)

    assert result.code == 1
    assert result.err.count("the name is too long") == 1
    assert "internal error" not in result.err


def test_long_name_is_an_error_of_the_json(run: Run, long: Path) -> None:
    result = run("info", long, "--json")

    assert result.code == 1
    assert json.loads(result.out)["error"]["code"] == "read"


@pytest.mark.parametrize("option", ["--gguf", "--with"])
def test_part_with_a_long_name_leaves_the_trace_readable(
    run: Run, trace: Path, long: Path, option: str
) -> None:
    result = run("info", trace, option, long, "--json")

    problems = [
        w for w in json.loads(result.out)["warnings"] if w["place"] == long.name
    ]
    assert [p["code"] for p in problems] == ["part_unreadable"]
    assert "too long" in problems[0]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "{trace}", "-o", "{long}.png"),
        ("export", "{trace}", "-o", "{long}"),
        ("export", "{trace}", "-o", "{folder}/a.png", "--caption", "{long}"),
        ("convert", "{trace}", "--to", "csv", "-o", "{long}"),
        ("convert", "{trace}", "--to", "token-json", "-o", "{long}"),
        ("convert", "{trace}", "--to", "chrome-json", "-o", "{long}"),
        ("report", "{trace}", "-o", "{long}.html"),
        ("check", "{trace}", "--report", "{long}.html"),
        ("live", "{trace}", "--seconds", "600", "--save", "{long}"),
    ],
    ids=lambda text: f"{text[0]}{text[-2]}",
)
def test_nothing_is_written_to_a_long_name(
    run: Run, trace: Path, long: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    places = {"trace": trace, "long": long, "folder": tmp_path}

    result = run(*(word.format_map(places) for word in arguments))

    assert result.code == 1
    assert "the name is too long" in result.err
    assert "internal error" not in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_longest_name_there_may_be_is_read_and_written(
    run: Run, trace: Path, tmp_path: Path
) -> None:
    named = tmp_path / f"{'n' * 251}.bin"
    named.write_bytes(trace.read_bytes())
    target = named.with_suffix(".csv")

    assert run("convert", named, "--to", "csv", "-o", target).code == 0
    assert target.stat().st_size > 0
