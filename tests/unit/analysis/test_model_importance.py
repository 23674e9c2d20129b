"""Importance by tensor and slice against a look at each entry and tensor."""

from pathlib import Path

import numpy as np
import pytest

import gguf_files
import imatrix_files
from ggscope.analysis.model_importance import tensor_importance
from ggscope.analysis.model_tensors import model_tensors
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.render.model_map import ModelMapScene, compose_model_map, height_of
from ggscope.render.theme import theme
from ggscope.session_loading import open_parts
from gguf_files import T
from scenes import texts_of

LAYERS, EXPERTS = 3, 6
FORMS = {"gguf": imatrix_files.gguf, "dat": imatrix_files.legacy}


def opened(folder: Path, form: str) -> tuple[Trace, list[imatrix_files.Entry]]:
    some = imatrix_files.entries(2, LAYERS, EXPERTS)
    tensors = [T("token_embd.weight", (64, 10), "f32")]
    tensors += [
        T(f"blk.{layer}.{name}.weight", shape, "f32")
        for layer in range(LAYERS)
        for name, shape in (
            ("attn_q", (64, 8)),
            ("ffn_gate_inp", (64, EXPERTS)),
            ("ffn_up_exps", (64, 5, EXPERTS)),
            ("ffn_down_exps", (32, 7, EXPERTS)),
        )
    ]
    (folder / "model.gguf").write_bytes(gguf_files.encode(tensors))
    (folder / "imatrix").write_bytes(FORMS[form](some))
    paths = (folder / "model.gguf", folder / "imatrix")
    return open_parts(survey(paths)).trace, some


@pytest.mark.parametrize("form", list(FORMS))
def test_values_are_those_of_the_entry_of_the_name(form: str, tmp_path: Path) -> None:
    trace, some = opened(tmp_path, form)

    importance = tensor_importance(trace)

    assert importance is not None
    names = [trace.strings[i] for i in trace.tensors.name.tolist()]
    by_name = {entry.name: entry for entry in some}
    for row, name in enumerate(names):
        if name not in by_name:
            assert np.isnan([importance.mean_square[row], importance.count[row]]).all()
            assert importance.n_unused[row] == -1
            continue
        entry = by_name[name]
        used = entry.counts > 0
        each = entry.sums.mean(axis=1, dtype=np.float64)[used] / entry.counts[used]
        assert importance.mean_square[row] == pytest.approx(each.mean(), rel=1e-4)
        is_stack = len(entry.counts) > 1
        assert importance.n_unused[row] == (int((~used).sum()) if is_stack else -1)
        if form == "gguf":
            assert importance.count[row] == entry.counts.sum()
        else:
            assert np.isnan(importance.count[row])
        mine = importance.slice_row == row
        size = int(trace.tensors.size[row])
        edges = [i * size // len(entry.counts) for i in range(len(entry.counts) + 1)]
        assert importance.slice_first[mine].tolist() == edges[:-1]
        assert importance.slice_stop[mine].tolist() == edges[1:]
        assert np.isnan(importance.slice_square[mine]).tolist() == (~used).tolist()


def test_no_matrix_no_importance(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.encode([T("a.weight", (4, 4), "f32")]))

    assert tensor_importance(open_parts(survey((path,))).trace) is None


@pytest.mark.parametrize("color", ["importance", "choices"])
@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_map_draws_a_slice_for_each_expert(
    color: str, theme_name: str, tmp_path: Path
) -> None:
    trace, some = opened(tmp_path, "gguf")
    tensors = model_tensors(trace)
    scene = ModelMapScene(
        tensors, 4_000.0, height_of(tensors), theme(theme_name),
        importance=tensor_importance(trace), color=color,  # type: ignore[arg-type]
    )  # fmt: skip

    picture = compose_model_map(scene)

    texts = texts_of(picture)
    assert "never used" in texts
    assert "not in the matrix" in texts
    n_slices = sum(len(entry.counts) for entry in some)
    boxes = [len(b.x0) for b in picture.batches if hasattr(b, "fill")]
    assert n_slices in boxes
