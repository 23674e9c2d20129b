"""Importance matrices: both forms, experts, damaged files, models of others."""

import json
from pathlib import Path

import numpy as np
import pytest

import gguf_files
import imatrix_files
import people
from ggscope.analysis.experts.experts import ExpertSource, expert_choices, expert_grid
from ggscope.cli import main
from ggscope.errors import ReadError
from ggscope.model.importance import Importance
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.readers.registry import open_trace
from ggscope.session_loading import open_bundle
from gguf_files import T

FORMS = {"gguf": imatrix_files.gguf, "dat": imatrix_files.legacy}


def opened(path: Path, data: bytes) -> tuple[Trace, Importance]:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.info.reader_id == "imatrix"
    assert trace.check() == []
    assert trace.importance is not None
    return trace, trace.importance


@pytest.mark.parametrize("form", list(FORMS))
def test_a_matrix_alone_lists_its_tensors(form, tmp_path):
    some = imatrix_files.entries()

    trace, importance = opened(tmp_path / "x.imatrix", FORMS[form](some))

    tensors = trace.tensors
    assert [trace.strings[i] for i in tensors.name] == [entry.name for entry in some]
    assert tensors.layer.tolist() == importance.layer.tolist()
    assert set(tensors.size.tolist()) == set(tensors.offset.tolist()) == {-1}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("seed", range(3))
def test_entries_are_those_that_were_written(form, seed, tmp_path):
    some = imatrix_files.entries(seed)

    trace, importance = opened(tmp_path / "x.txt", FORMS[form](some))

    assert importance.names == tuple(entry.name for entry in some)
    assert importance.layer.tolist() == [i // 4 for i in range(len(some))]
    assert (importance.chunks, importance.datasets) == (7, ("wiki.txt",))
    assert trace.info.summary["events"] == {"entries": len(some), "chunks": 7}
    for i, entry in enumerate(some):
        rows = slice(importance.first[i], importance.first[i + 1])
        assert importance.n_values[i] == entry.sums.size
        expected = [
            float(np.mean(sums)) / count if count else np.nan
            for sums, count in zip(entry.sums.astype(float), entry.counts, strict=True)
        ]
        assert importance.mean_square[rows] == pytest.approx(
            expected, rel=1e-5, nan_ok=True
        )
        assert importance.is_seen[rows].tolist() == (entry.counts > 0).tolist()
        if form == "gguf":
            assert importance.count[rows].tolist() == entry.counts.tolist()
        else:
            assert np.isnan(importance.count[rows]).all()


def test_counts_of_experts_are_choices(tmp_path):
    some = imatrix_files.entries()

    trace, _ = opened(tmp_path / "x.gguf", imatrix_files.gguf(some))

    choices = expert_choices(trace)
    assert choices.source is ExpertSource.COUNTS
    counts = [e.counts for e in some if "up_exps" in e.name]
    assert expert_grid(choices).count.tolist() == np.array(counts).tolist()
    assert expert_grid(choices).count[:, -1].tolist() == [0, 0, 0]


def test_without_counts_only_what_was_used_is_known(tmp_path):
    trace, importance = opened(
        tmp_path / "x.dat", imatrix_files.legacy(imatrix_files.entries())
    )

    layer, expert, count, seen = importance.expert_counts()
    assert np.isnan(count).all()
    assert layer[seen == 0].tolist() == [0, 1, 2]
    assert set(expert[seen == 0].tolist()) == {5}
    assert expert_choices(trace).source is ExpertSource.STACKS


def test_stack_of_unknown_width_is_one_matrix(tmp_path):
    some = [e for e in imatrix_files.entries() if "down_exps" in e.name]

    _, importance = opened(tmp_path / "x.dat", imatrix_files.legacy(some))

    assert not importance.is_split.any()
    assert set(importance.is_seen.tolist()) == {-1}
    assert importance.expert_counts()[0].tolist() == []


@pytest.mark.parametrize("form", list(FORMS))
def test_cut_files_keep_whole_entries(form, tmp_path):
    some = imatrix_files.entries()
    data = FORMS[form](some)
    rng = np.random.default_rng(3)
    for cut in rng.integers(24, len(data), 25).tolist():
        path = tmp_path / "x"
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        if trace.importance is None:
            continue  # the head of GGUF does not say what it is any more
        names = trace.importance.names
        assert names == tuple(e.name for e in some)[: len(names)]
        if len(names) < len(some):
            codes = {w.code for w in trace.warnings}
            assert "imatrix_cut" in codes or any(c.startswith("gguf") for c in codes)


def _model(width: int) -> bytes:
    tensors = [
        T(f"blk.{layer}.{name}.weight", shape, "f32")
        for layer in range(3)
        for name, shape in (
            ("attn_q", (width, 8)),
            ("ffn_gate_inp", (width, 6)),
            ("ffn_up_exps", (width, 4, 6)),
            ("ffn_down_exps", (32, 4, 6)),
        )
    ]
    return gguf_files.encode(tensors)


@pytest.mark.parametrize(("width", "fits"), [(64, True), (96, False)])
@pytest.mark.parametrize("form", list(FORMS))
def test_matrix_of_another_model_is_not_used(form, width, fits, tmp_path):
    (tmp_path / "model.gguf").write_bytes(_model(width))
    (tmp_path / "imatrix.data").write_bytes(FORMS[form](imatrix_files.entries()))

    trace = open_bundle(survey((tmp_path / "model.gguf", tmp_path / "imatrix.data")))

    assert (trace.importance is not None) == fits
    assert ("imatrix_misfit" in {w.code for w in trace.warnings}) == (not fits)
    if fits and form == "gguf":
        assert expert_choices(trace).source is ExpertSource.COUNTS


def test_problem_of_another_model_names_entries_that_do_not_match(tmp_path):
    entries = imatrix_files.entries(layers=6)
    (tmp_path / "model.gguf").write_bytes(_model(96))
    (tmp_path / "imatrix.data").write_bytes(imatrix_files.gguf(entries))

    trace = open_bundle(survey((tmp_path / "model.gguf", tmp_path / "imatrix.data")))

    (problem,) = (w for w in trace.warnings if w.code == "imatrix_misfit")
    # Layers 0 to 2 are there: of four entries each, three have another width.
    assert "3 of 24 entries" in problem.message
    assert "lacks 12 of them, such as blk.3.attn_q.weight" in problem.message
    assert "9 have another width, such as blk.0.attn_q.weight: 64" in problem.message
    assert "96 in the model" in problem.message
    assert "model that it was made of" in problem.remedy


def test_numbers_that_are_none_are_unknown(tmp_path):
    some = imatrix_files.entries(1, 1)
    data = bytearray(imatrix_files.legacy(some))
    at = 4 + 4 + len(some[0].name) + 8
    data[at : at + 4] = b"\x00\x00\xa0\x7f"  # a signalling NaN

    _, importance = opened(tmp_path / "x.dat", bytes(data))

    assert np.isnan(importance.mean_square[0])
    assert np.isfinite(importance.mean_square[1])


def test_model_is_no_importance_matrix(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_files.encode())

    assert open_trace(path).importance is None


@people.each("imatrix-dat")  # of the corpus
def test_matrix_of_people_has_the_counts_of_the_index(name, tmp_path, capsys):
    entry = people.counts("imatrix-dat")[name]
    copy = tmp_path / "x.txt"
    copy.write_bytes(people.content(name))

    assert main(["info", str(copy), "--json"]) == 0

    events = json.loads(capsys.readouterr().out)["events"]
    assert events == {"entries": entry["entries"], "chunks": entry["chunks"]}


def test_chunks_of_a_cut_file_are_unknown(tmp_path):
    path = tmp_path / "x.dat"
    data = imatrix_files.legacy(imatrix_files.entries())
    path.write_bytes(data[: len(data) // 2])

    events = open_trace(path).info.summary["events"]

    assert events["chunks"] is None
    assert events["entries"] > 0
