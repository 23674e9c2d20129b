"""Which files belong together: by content, bounded, in natural order."""

import os
import shutil
from pathlib import Path

import pytest

import gguf_files
import tensor_files
from ggscope.readers import discovery as readers_survey
from ggscope.readers.discovery import (
    SessionFile,
    Skipped,
    beside,
    recognise,
    survey,
    traces_beside,
)
from session_files import write_experiment, write_map, write_tokens
from support import ROOT, need_corpus

READS = [("blk.0.ffn_up.weight", 4096, 64)]


def names(members: tuple[SessionFile, ...]) -> list[str]:
    return [member.path.name for member in members]


def test_folder_gives_traces_sides_and_what_takes_no_part(tmp_path):
    file_set = survey([write_experiment(tmp_path, tokens=2)])

    assert names(file_set.mains) == ["token-00000.json", "token-00001.json"]
    assert [(m.path.name, m.role) for m in file_set.sides] == [
        ("memory-map.json", "map")
    ]
    assert [s.path.name for s in file_set.skipped] == ["README.md"]
    assert "Unknown format" in file_set.skipped[0].reason


def test_roles_are_detected_by_content_not_by_name(tmp_path):
    write_map(tmp_path / "token-00000.json", READS)
    write_tokens(tmp_path / "memory-map.json", READS)

    file_set = survey([tmp_path])

    assert names(file_set.mains) == ["memory-map.json"]
    assert names(file_set.sides) == ["token-00000.json"]


def test_numbers_sort_by_value(tmp_path):
    for token in (10, 2, 1):
        write_tokens(tmp_path / f"token-{token}.json", READS)

    assert names(survey([tmp_path]).mains) == [
        "token-1.json",
        "token-2.json",
        "token-10.json",
    ]


def test_folder_of_too_many_files_says_what_it_left(tmp_path, monkeypatch):
    monkeypatch.setattr(readers_survey, "MAX_FILES", 3)
    for token in range(8):
        write_tokens(tmp_path / f"token-{token}.json", READS)

    file_set = survey([tmp_path])

    assert len(file_set.mains) == 3
    assert file_set.n_left == 5


def test_folder_of_too_many_names_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(readers_survey, "MAX_ENTRIES", 10)
    for i in range(40):
        (tmp_path / f"{i}.txt").write_text("x")

    file_set = survey([tmp_path])

    assert len(file_set.skipped) == 10
    assert file_set.n_left >= 30


def test_links_in_a_circle_end(tmp_path):
    write_map(tmp_path / "memory-map.json", READS)
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)

    assert len(survey([tmp_path]).members) == 1


def test_hidden_and_foreign_folders_are_passed_over(tmp_path):
    for folder in (".git", "node_modules"):
        write_map(tmp_path / folder / "memory-map.json", READS)

    assert survey([tmp_path]).members == ()


def test_one_of_several_experiments_is_taken_and_the_others_are_named(tmp_path):
    write_experiment(tmp_path / "b")
    write_experiment(tmp_path / "a")
    write_map(tmp_path / "shared.json", READS)

    file_set = survey([tmp_path])

    assert [m.path.parent.parent.name for m in file_set.mains] == ["a"]
    assert [m.path.name for m in file_set.sides] == ["shared.json", "memory-map.json"]
    others = [s for s in file_set.skipped if "another experiment" in s.reason]
    assert len(others) == 2


def test_files_named_themselves_all_take_part(tmp_path):
    first = write_experiment(tmp_path / "a") / "traces/token-00000.json"
    second = write_experiment(tmp_path / "b") / "traces/token-00000.json"

    assert [m.path for m in survey([second, first, second]).mains] == [second, first]


def test_missing_empty_and_unknown_files_say_why(tmp_path):
    empty, text = tmp_path / "empty.bin", tmp_path / "notes.txt"
    empty.write_bytes(b"")
    text.write_text("hello")

    reasons = []
    for path in (empty, text, tmp_path / "gone"):
        result = recognise(path)
        assert isinstance(result, Skipped)
        reasons.append(result.reason)

    assert "empty" in reasons[0]
    assert "hello" in reasons[1]
    assert reasons[2]


def test_files_of_one_run_are_found_beside_a_trace(tmp_path):
    write_experiment(tmp_path, tokens=3)

    result = beside(tmp_path / "traces" / "token-00001.json")

    assert names(result.mains) == ["token-00000.json", "token-00002.json"]
    assert names(result.sides) == ["memory-map.json"]


def test_a_foreign_trace_beside_is_not_offered(tmp_path):
    write_tokens(tmp_path / "mine.json", READS)
    write_tokens(tmp_path / "other.json", READS)

    assert beside(tmp_path / "mine.json").members == ()


def test_looking_beside_is_bounded_and_can_be_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(readers_survey, "MAX_BESIDE", 2)
    write_experiment(tmp_path, tokens=9)
    path = tmp_path / "traces" / "token-00001.json"

    assert len(beside(path).members) <= 2
    assert beside(path).n_left > 0

    def stop() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        beside(path, stop)


def write_model(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.gguf"
    path.write_bytes(gguf_files.encode())
    return path


def at_time(path: Path, seconds: int) -> Path:
    os.utime(path, (seconds, seconds))
    return path


def test_newest_trace_of_reads_is_found_beside_a_model(tmp_path):
    model = write_model(tmp_path)
    shutil.copy(ROOT / "resources" / "samples" / "npu-prefill-decode.json", tmp_path)
    assert traces_beside(model).members == ()

    records = tensor_files.encode(tensor_files.llama_trace(), "1024")
    for name, seconds in (("older.bin", 1000), ("newer.bin", 2000)):
        (tmp_path / name).write_bytes(records)
        at_time(tmp_path / name, seconds)
    write_map(tmp_path / "memory-map.json", READS)

    assert names(traces_beside(model).members) == ["newer.bin"]

    at_time(tmp_path / "older.bin", 3000)
    assert names(traces_beside(model).members) == ["older.bin"]


def test_all_tokens_of_the_newest_run_are_found_beside_a_model(tmp_path):
    model = write_model(tmp_path)
    for token in (0, 1, 2):
        write_tokens(tmp_path / f"token-{token:05}.json", READS)

    assert names(traces_beside(model).mains) == [
        f"token-0000{i}.json" for i in range(3)
    ]


def test_split_model_is_one_member(tmp_path):
    for part in (1, 2):
        (tmp_path / f"m-0000{part}-of-00002.gguf").write_bytes(b"GGUF" + bytes(60))

    file_set = survey([tmp_path])

    assert names(file_set.members) == ["m-00001-of-00002.gguf"]
    assert "Loaded with m-00001" in file_set.skipped[0].reason


@pytest.mark.parametrize("commit", ["3584a339", "962e44d2", "a6ba6071", "c26d86e7"])
def test_experiment_of_the_corpus_is_recognised(commit):
    folder: Path = need_corpus() / "bsc" / commit

    file_set = survey([folder])

    assert names(file_set.mains) == ["token-00000.json"]
    assert {m.role for m in file_set.sides} >= {"graph"}
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert len(file_set.members) + len(file_set.skipped) == len(files)
