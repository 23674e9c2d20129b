"""Metadata beside a trace: facts that people read, and figures with a verdict."""

import json
from pathlib import Path

import pytest

from ggscope.errors import CorruptError, LimitExceededError, UnknownFormatError
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.readers.metadata import reader
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_parts
from tensor_files import encode, llama_trace

NAME = "trace_metadata.json"


def session(folder: Path, facts: object) -> Trace:
    (folder / "trace.bin").write_bytes(encode(llama_trace(), "256"))
    (folder / NAME).write_text(json.dumps(facts))
    return open_parts(survey([folder])).trace


def test_facts_join_those_of_the_trace(tmp_path: Path) -> None:
    facts = {"model": "a.gguf", "run": {"seed": 7, "args": ["-t", 4]}, "ok": True}

    trace = session(tmp_path, facts)

    assert trace.info.producer == {
        "model": "a.gguf", "run.seed": "7", "run.args": '["-t", 4]', "ok": "true",
    }  # fmt: skip
    assert [part.role for part in trace.parts] == ["trace", "metadata"]
    assert trace.check() == []


def test_counts_are_held_against_the_trace(tmp_path: Path) -> None:
    n = len(llama_trace())
    facts = {"total_entries": n, "entry_size": 64, "num_threads": 8, "n_layers": 3}

    figures = {f.name: f for _, f in session(tmp_path, facts).stated_figures()}

    assert figures.keys() == {"records", "size of a record", "threads"}
    assert figures["records"].agrees is True
    assert (figures["size of a record"].agrees, figures["size of a record"].computed) \
        == (False, 256)  # fmt: skip
    assert (figures["threads"].agrees, figures["threads"].is_least) == (None, True)


def test_figure_under_two_keys_is_one(tmp_path: Path) -> None:
    n = len(llama_trace())
    facts = {"total_entries": n, "n_records": n, "record_count": n + 1}

    figures = [f for _, f in session(tmp_path, facts).stated_figures()]

    assert [(f.stated, f.agrees) for f in figures] == [(n, True), (n + 1, False)]


def test_other_names_are_no_metadata(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text('{"model": "x"}')

    with pytest.raises(UnknownFormatError):
        open_trace(path)


@pytest.mark.parametrize("text", ["{", '{"a": 1', "[1]", "\x00", '{"a": ' + "[" * 9999])
def test_broken_metadata_is_one_clear_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(text)

    with pytest.raises(CorruptError):
        open_trace(path, reader_id="trace-metadata")


def test_hostile_values_are_cut(tmp_path: Path, monkeypatch) -> None:
    deep: object = 1
    for _ in range(40):
        deep = {"in": deep}
    facts = {"deep": deep, "long": "x" * 9999, "half": "\ud800",
             **{f"k{i}": i for i in range(300)}}  # fmt: skip
    path = tmp_path / NAME
    path.write_text(json.dumps(facts))

    trace = open_trace(path)

    assert len(trace.info.producer) == 200
    assert max(map(len, trace.info.producer.values())) <= 200
    assert trace.info.producer["half"] == "\ufffd"
    assert {w.code for w in trace.warnings} == {"metadata_left"}
    monkeypatch.setattr(reader, "_MAX_BYTES", 100)
    with pytest.raises(LimitExceededError):
        open_trace(path)
