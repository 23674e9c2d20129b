"""The Python API: open a trace, look at its columns, save figures of it."""

import json
import subprocess
import sys

import numpy as np
import pytest

import ggscope
from ggscope.errors import ExportError, QueryError, ReadError, TooLargeError
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def test_open_returns_the_columns_of_a_file() -> None:
    trace = ggscope.open(str(SAMPLES / "llama.ggmlviz"))

    assert len(trace.spans) > 0
    assert isinstance(trace.spans.start, np.ndarray)
    assert not trace.spans.start.flags.writeable
    assert int((trace.spans.end - trace.spans.start).sum()) > 0


def test_open_takes_a_folder_as_one_session() -> None:
    trace = ggscope.open(SAMPLES / "moe-experiment")

    assert len(trace.parts) > 1
    assert trace.models


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figure_is_saved_by_suffix(tmp_path, suffix) -> None:
    target = tmp_path / f"x{suffix}"
    trace = ggscope.open(SAMPLES / "llama.ggmlviz")

    caption = ggscope.figure(trace, "timeline").save(target)

    assert target.stat().st_size > 1000
    assert "llama.ggmlviz" in caption


def test_unknown_view_or_file_is_told(tmp_path) -> None:
    trace = ggscope.open(SAMPLES / "llama.ggmlviz")

    with pytest.raises(ExportError, match="timeline"):
        ggscope.figure(trace, "pie")
    with pytest.raises(ReadError, match=r"^none\.bin: the file does not exist\. Check"):
        ggscope.open(tmp_path / "none.bin")
    with pytest.raises(AttributeError, match="nosuch"):
        ggscope.nosuch  # noqa: B018


def test_file_that_is_not_there_is_told_whatever_lies_beside_it(tmp_path) -> None:
    model = SAMPLES / "moe-experiment" / "model.gguf"

    with pytest.raises(ReadError, match="does not exist") as caught:
        ggscope.open(tmp_path / "none.bin", beside=[model])

    assert caught.value.path == tmp_path / "none.bin"
    assert len(ggscope.open(model).tensors) > 0


def test_import_alone_brings_neither_numpy_nor_qt() -> None:
    code = "import sys, ggscope; print({'numpy', 'PySide6'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "set()"


def test_table_is_cut_by_filter_and_range(tmp_path) -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")
    s = trace.spans

    made = ggscope.table(trace, where="op=MUL_MAT", time=(0, 50_000_000))

    columns = made.columns()
    op = [trace.op_name(n) for n in s.op.tolist()]
    inside = (s.end >= 0) & (s.start < 50_000_000)
    rows = [i for i in range(len(s)) if op[i] == "MUL_MAT" and inside[i]]
    assert len(made) == len(rows)
    assert columns["start_ns"] == s.start[rows].tolist()
    assert set(columns["op"]) == {"MUL_MAT"}
    assert made.save(tmp_path / "a.csv") == []
    assert len((tmp_path / "a.csv").read_text().splitlines()) == len(rows) + 1
    assert "no place for" in " ".join(made.save(tmp_path / "a.trace.json"))
    with pytest.raises(ExportError, match="forms are csv"):
        made.save(tmp_path / "a.xyz")
    with pytest.raises(QueryError):
        ggscope.table(trace, where="((")


def test_table_becomes_one_of_arrow_or_pandas_where_they_are(monkeypatch) -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")
    made = ggscope.table(trace)
    for name, convert in (("pyarrow", made.to_arrow), ("pandas", made.to_pandas)):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            with pytest.raises(ExportError, match=f"pip install {name}"):
                convert()
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")

    found = made.to_arrow()

    assert found.num_rows == len(trace.spans)
    assert found.column("start_ns").to_pylist() == trace.spans.start.tolist()


def test_notebook_runs_from_top_to_bottom() -> None:
    cells = json.loads((ROOT / "resources" / "docs" / "api.ipynb").read_text())["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")

    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(len(columns), caption)"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "Timeline of" in done.stdout


def test_file_that_does_not_fit_is_refused_unless_forced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = SAMPLES / "tinyllama-256.bin"
    monkeypatch.setenv("GGSCOPE_MEMORY_LIMIT", "1")

    with pytest.raises(TooLargeError) as caught:
        ggscope.open(path)
    forced = ggscope.open(path, force=True)

    assert caught.value.path == path
    assert "force=True" in str(caught.value)
    assert len(forced.spans) > 2000
