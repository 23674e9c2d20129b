"""The Python API: open a trace, look at its columns, save figures of it."""

import json
import pydoc
import subprocess
import sys
from pathlib import Path

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


def test_unknown_view_or_file_is_reported(tmp_path) -> None:
    trace = ggscope.open(SAMPLES / "llama.ggmlviz")

    with pytest.raises(ExportError, match="timeline"):
        ggscope.figure(trace, "pie")
    with pytest.raises(ReadError, match=r"^none\.bin: the file does not exist\. Check"):
        ggscope.open(tmp_path / "none.bin")
    with pytest.raises(AttributeError, match="nosuch"):
        ggscope.nosuch  # noqa: B018


def test_file_that_is_not_there_is_reported_whatever_lies_beside_it(tmp_path) -> None:
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
    assert "omitted" in " ".join(made.save(tmp_path / "a.trace.json"))
    with pytest.raises(ExportError, match="forms are csv"):
        made.save(tmp_path / "a.xyz")
    with pytest.raises(QueryError):
        ggscope.table(trace, where="((")


def test_module_lists_its_functions_and_errors() -> None:
    listed = set(dir(ggscope))

    assert {"open", "table", "figure", "stats", "accesses", "TraceError"} <= listed
    assert all(getattr(ggscope, name) is not None for name in ggscope.__all__)
    assert issubclass(ggscope.ReadError, ggscope.TraceError)
    text = pydoc.plain(pydoc.render_doc(ggscope))
    functions = text[text.index("FUNCTIONS") :]
    for name in ("accesses", "compare", "figure", "open", "stats", "summary", "table"):
        assert f"\n    {name}(" in functions


def test_times_are_taken_as_texts_or_ticks() -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")

    ticks = ggscope.table(trace, time=(1_000_000, 20_000_000))
    texts = ggscope.table(trace, time=("1 ms", "20 ms"))

    assert 0 < len(ticks) < len(trace.spans)
    assert texts.columns() == ticks.columns()
    for wrong in (("1 ms", "soon"), ("2 ms", "1 ms")):
        with pytest.raises(ggscope.QueryError):
            ggscope.table(trace, time=wrong)


def test_stats_are_those_of_numpy() -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")
    s = trace.spans
    lengths = s.end - s.start
    op = np.array([trace.op_name(n) for n in s.op.tolist()])
    n_ops = int(np.count_nonzero(s.op >= 0))

    made = ggscope.stats(trace, by="op", include_estimated=True)

    columns = made.columns()
    assert len(made) == len(set(op[s.op >= 0].tolist()))
    for key, total, p99 in zip(
        columns["key"], columns["total_ns"], columns["p99"], strict=True
    ):
        assert total == lengths[op == key].sum()
        assert p99 == np.percentile(lengths[op == key], 99)
    assert made.all.count == n_ops
    assert [row.key for row in made.rows] == columns["key"]
    part = ggscope.stats(trace, where="op=MUL_MAT", by="layer", time=("0 ms", "9 ms"))
    inside = (op == "MUL_MAT") & (s.end >= 0) & (s.start < 9_000_000)
    assert sum(part.columns()["count"]) == inside.sum()
    with pytest.raises(ggscope.QueryError, match="layer"):
        ggscope.stats(trace, by="colour")


def test_accesses_are_a_row_each() -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")
    flat = trace.accesses.flat(trace.spans)

    columns = ggscope.accesses(trace).columns()

    assert columns["size"] == [n if n >= 0 else None for n in flat.what.size.tolist()]
    assert columns["span"] == [n if n >= 0 else None for n in flat.span.tolist()]
    names = trace.tensors.name[flat.what.tensor].tolist()
    assert columns["tensor"][:50] == [
        trace.strings[n] if t >= 0 else None
        for n, t in zip(names[:50], flat.what.tensor[:50].tolist(), strict=True)
    ]
    part = ggscope.accesses(trace, where="op=MUL_MAT").columns()
    assert set(part["op"]) == {"MUL_MAT"}
    assert len(part["op"]) == columns["op"].count("MUL_MAT")


def test_figures_take_presets_and_show_in_notebooks() -> None:
    trace = ggscope.open(SAMPLES / "llama.ggmlviz")
    narrow = ggscope.figure(trace, preset="single", time=("0 ms", "1 ms"))
    wide = ggscope.figure(trace, preset="double")

    widths = [
        int.from_bytes(figure._repr_png_()[16:20], "big") for figure in (narrow, wide)
    ]

    assert widths == [round(mm / 25.4 * 300) for mm in (88, 180)]
    assert "</svg>" in narrow._repr_svg_()
    with pytest.raises(ExportError, match="single, double"):
        ggscope.figure(trace, preset="poster")


def test_tables_show_their_first_rows_in_notebooks() -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")

    page = ggscope.table(trace)._repr_html_()

    assert page.count("<tr>") == 21
    assert f"{len(trace.spans) - 20:,} more rows" in page
    assert "<th>start_ns</th>" in page
    assert "rows of record, start_ns" in repr(ggscope.table(trace))


def test_table_without_arrow_or_pandas_names_the_package(monkeypatch) -> None:
    made = ggscope.table(ggscope.open(SAMPLES / "tinyllama-256.bin"))

    for name, convert in (("pyarrow", made.to_arrow), ("pandas", made.to_pandas)):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            with pytest.raises(ExportError, match=f"pip install {name}"):
                convert()


def test_tables_become_those_of_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")

    for made in (ggscope.table(trace), ggscope.accesses(trace), ggscope.stats(trace)):
        arrow = made.to_arrow()
        assert arrow.num_rows == len(made)
        assert arrow.to_pydict() == made.columns()
        # The C stream is what other libraries read.
        assert pyarrow.table(made).equals(arrow)
    kind = ggscope.table(trace).to_arrow().schema.field("op").type
    assert pyarrow.types.is_dictionary(kind)


def test_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "resources" / "docs" / "api.ipynb").read_text())["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")

    samples = [sys.executable, "-m", "ggscope", "samples", "."]
    subprocess.run(samples, cwd=tmp_path, capture_output=True, check=True)
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(len(columns), caption)"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
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


def test_compare_needs_traces_and_a_grouping() -> None:
    trace = ggscope.open(SAMPLES / "tinyllama-256.bin")

    with pytest.raises(QueryError):
        ggscope.compare(trace, [])
    with pytest.raises(QueryError):
        ggscope.compare(trace, trace, by="colour")
