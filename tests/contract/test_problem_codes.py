"""Every problem code is listed with its condition, and a test provokes it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from expert_traces import routed
from ggscope.analysis.completeness.expected import completeness
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.descriptions.completeness import with_completeness
from ggscope.model.trace import Trace
from ggscope.readers import discovery as readers_survey
from ggscope.readers.maps import memory_map
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_bundle
from problem_codes import APP, CONDITIONS, codes_in, texts_in
from reader_files import reader_files, valid_file
from session_files import model_trace, reading_trace
from support import ROOT
from tensor_files import encode, llama_trace

SAMPLES = ROOT / "resources" / "samples"


@cache
def sources() -> dict[Path, str]:
    """Return the tests, but for the lists that this one is about."""
    return {
        path: path.read_text("utf-8")
        for path in (ROOT / "tests").rglob("*.py")
        if path.name not in ("problem_codes.py", Path(__file__).name)
    }


@cache
def silent_samples() -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the codes that each sample of the program gives."""
    paths = [p for p in sorted(SAMPLES.iterdir()) if p.is_file()]
    return tuple((p.name, codes_of(open_trace(p))) for p in paths)


def codes_of(trace: Trace) -> frozenset[str]:
    return frozenset(warning.code for warning in trace.warnings)


def test_every_code_is_listed_with_its_condition():
    values = {code for path in APP.rglob("*.py") for code in codes_in(path)}

    assert values - CONDITIONS.keys() == set(), "add them to tests/problem_codes.py"
    assert all(len(text.split()) > 2 for text in CONDITIONS.values())


def test_every_listed_code_is_one_of_the_program():
    texts = {text for path in APP.rglob("*.py") for text in texts_in(path)}

    assert CONDITIONS.keys() - texts == set()


def test_a_test_names_each_code_that_it_provokes():
    tests = "\n".join(sources().values())

    def is_named(code: str) -> bool:
        if "*" in code:
            return code.strip("*_") in tests
        return any(q in tests for q in (f'"{code}"', f"'{code}'", f"{code} "))

    assert [c for c in CONDITIONS if not is_named(c) and c not in PROVOKED] == []


def test_a_sample_does_not_provoke_each_code():
    silent = [codes for _, codes in silent_samples()]

    assert [c for c in CONDITIONS if all(c in codes for codes in silent)] == []


def _too_many_tensors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setattr(memory_map, "MAX_ROWS", 3)
    return open_trace(valid_file("memory-map", folder))


def _no_list(folder: Path, _: pytest.MonkeyPatch) -> Trace:
    path = folder / "graph.json"
    path.write_text(
        '{"token_id": 0, "edges": {}, "nodes": [{"id": "a", "operation": "X*Y",'
        ' "label": "t", "address": "0x1", "dtype": "f32", "shape": [1]}]}'
    )
    return open_trace(path)


def _odd_score(folder: Path, _: pytest.MonkeyPatch) -> Trace:
    path = folder / "moe.csv"
    rows = [f"{i % 24},{(7 * i) % 32},{'inf' if i == 5 else 0.5}\n" for i in range(100)]
    path.write_text("layer,expert,score\n" + "".join(rows))
    return open_trace(path)


def _full_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setattr(readers_survey, "MAX_FILES", 1)
    for name in ("buffer-stats", "memory-map", "structure-csv"):
        valid_file(name, folder)
    return open_bundle(readers_survey.survey([folder]))


def _cut_names(_folder: Path, _: pytest.MonkeyPatch) -> Trace:
    names = [("token_embd.weight", 0, 512), ("blk.0.attn_output.weight", 512, 256)]
    reads = [names[0], (names[1][0][:19], *names[1][1:])]
    return join(reading_trace(reads), [SideFile(model_trace(names), "map")])


def _two_routings(_folder: Path, _: pytest.MonkeyPatch) -> Trace:
    one = routed([[[1, 2], [3, 4]]])
    return join(one, [SideFile(routed([[[1, 2], [3, 4]]]), "experts")])


def _lost_record(folder: Path, _: pytest.MonkeyPatch) -> Trace:
    records = llama_trace(12)
    del records[len(records) // 2]
    path = folder / "trace.bin"
    path.write_bytes(encode(records, "256"))
    trace = open_trace(path)
    return with_completeness(trace, completeness(trace))


PROVOKED: dict[str, Callable[[Path, pytest.MonkeyPatch], Trace]] = {
    "bad_score": _odd_score,
    "files_left": _full_folder,
    "map_too_many": _too_many_tensors,
    "names_completed": _cut_names,
    "not_a_list": _no_list,
    "records_missing": _lost_record,
    "routing_not_added": _two_routings,
}
"""Codes that no other test names."""


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_code_is_given_under_its_condition(code, tmp_path, monkeypatch):
    assert code in codes_of(PROVOKED[code](tmp_path, monkeypatch))


@pytest.mark.parametrize("name", reader_files())
def test_valid_files_give_none_of_them(name, tmp_path):
    trace = open_trace(valid_file(name, tmp_path))

    assert not codes_of(trace) & PROVOKED.keys()
