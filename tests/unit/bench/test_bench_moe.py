"""The sessions that ``make bench`` writes: a run, its model and its graph."""

import numpy as np
import pytest
from bench_figures import figures
from bench_moe import (
    N_ACCESSES,
    N_EXPERTS,
    N_LAYERS,
    N_TENSORS,
    N_USED,
    choices,
    n_records,
    n_tokens,
    session_files,
    token_ops,
    weights,
)
from bench_traces import is_there, lacking_bytes, provide

from ggscope.analysis.experts.experts import ExpertSource, expert_choices
from ggscope.analysis.sessions.correlate import correlate
from ggscope.model.trace import Severity, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle

N = 6_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("bench")
    paths = [provide(file, folder) for file in session_files(N)]
    assert len({path.parent for path in paths}) == 1
    return open_bundle(survey([paths[0].parent]))


def test_model_has_the_tensors_of_gpt_oss():
    tensors = list(weights().values())

    assert len(tensors) == N_TENSORS == 2_691
    ends = [t.offset + t.size for t in tensors]
    assert all(a <= b.offset for a, b in zip(ends, tensors[1:], strict=False))
    assert 13e9 < ends[-1] < 14e9


def test_session_is_read_without_loss(trace):
    counts = np.diff(trace.accesses.first)

    assert trace.check() == []
    assert not [w for w in trace.warnings if w.severity > Severity.NOTICE]
    assert trace.info.n_records == n_records(N)
    n_accesses = int(counts[trace.accesses.pattern[: n_records(N)]].sum())
    assert n_accesses == n_tokens(N) * N_ACCESSES >= N
    assert [part.role for part in trace.parts] == ["trace", "model", "graph"]


def test_every_access_to_the_file_finds_its_tensor(trace):
    mapped = next(join for join in trace.joins if join.kind == "map")

    assert mapped.n_found == mapped.n_all == mapped.n_agree > 0


def test_every_op_finds_its_node(trace):
    correlation = correlate(trace)

    assert correlation is not None
    assert correlation.n_found == correlation.n_all == n_records(N)


def test_experts_of_the_trace_are_those_that_were_chosen(trace):
    result = expert_choices(trace)
    expected = choices(n_tokens(N))

    assert result.source is ExpertSource.ACCESSES
    assert result.n_experts == N_EXPERTS
    seen = np.zeros((n_tokens(N), N_LAYERS, N_EXPERTS), np.bool_)
    seen[result.token, result.layer, result.expert] = True
    requested = np.zeros_like(seen)
    np.put_along_axis(requested, expected, True, axis=2)
    assert np.array_equal(seen, requested)


def test_choices_are_distinct_and_the_hot_experts_differ_by_layer():
    chosen = choices(2_000)

    assert chosen.shape == (2_000, N_LAYERS, N_USED)
    assert (np.diff(np.sort(chosen, axis=2), axis=2) > 0).all()
    counts = np.stack(
        [np.bincount(c.ravel(), minlength=32) for c in chosen.swapaxes(0, 1)]
    )
    assert len(set(counts.argmax(axis=1).tolist())) > 3
    assert (counts.max(axis=1) > 2 * np.median(counts, axis=1)).all()


def test_files_are_the_same_every_time(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        for file in session_files(N):
            if not file.name.endswith(".gguf"):  # 13 GB, nearly all of it a hole
                provide(file, folder)

    for file in session_files(N):
        if not file.name.endswith(".gguf"):
            assert (one / file.name).read_bytes() == (other / file.name).read_bytes()


def test_files_take_the_room_that_is_asked_for(tmp_path):
    files = session_files(N)
    for file in files:
        provide(file, tmp_path)

    assert all(is_there(file, tmp_path) for file in files)
    assert lacking_bytes(list(files), tmp_path) == 0
    used = sum((tmp_path / file.name).stat().st_blocks * 512 for file in files)
    assert used < sum(file.n_bytes for file in files) + (1 << 20)
    # Nothing but the session's files lies in its folder.
    assert len(list((tmp_path / files[0].name).parent.iterdir())) == len(files)


def test_ops_of_a_token_name_sources_that_exist():
    known = {"inp_tokens", "leaf_8", "leaf_10", "leaf_12"}
    made = set()
    for op in token_ops():
        made.add(op.name)
        assert set(op.weights) <= set(weights())
        for name in op.inputs:
            is_cache, is_topk = name.startswith("cache_"), "topk" in name
            assert name in made or name in known or is_cache or is_topk


def test_figures_of_all_sizes_have_names_of_their_own():
    keys = [figure.key for figure in figures(["1", "10"], [])]

    assert len(keys) == len(set(keys))
    assert {"moe10.heatmap_fps", "bytes1.curve_ms"} <= set(keys)
