"""Real exports of Nsight Systems: counts and sums, by content alone."""

import numpy as np

import people
from ggscope.model.trace import Severity
from ggscope.readers.registry import open_trace


@people.each("sqlite")
def test_counts_of_real_exports(name, tmp_path):
    counts = people.counts("sqlite")[name]
    path = tmp_path / "x.txt"
    path.write_bytes(people.content(name))

    trace = open_trace(path)

    assert trace.check() == []
    assert trace.info.format_version == counts["schema"]["EXPORT_SCHEMA_VERSION"]
    assert trace.info.summary["events"] == counts["tables"]
    spans, origin = trace.spans, trace.clock.origin
    array = np.array([trace.strings[c] for c in spans.category.tolist()])
    kernels = np.flatnonzero(array == "kernel")
    length = (spans.end - spans.start)[kernels]
    expected = counts["kernels"]
    assert len(kernels) == expected["count"]
    assert int(length.sum()) == expected["total_ns"]
    assert int(spans.start[kernels].min()) + origin == expected["first"]
    assert int(spans.end[kernels].max()) + origin == expected["last"]
    for kernel, n, total in expected["top"]:
        rows = [i for i in kernels.tolist() if trace.span_name(i) == kernel]
        assert len(rows) == n
        assert int((spans.end - spans.start)[rows].sum()) == total
    n_copies, n_bytes = counts["memcpy"]
    copies = np.flatnonzero(array == "gpu_memcpy")
    flat = trace.accesses.flat(spans)
    assert len(copies) == n_copies
    assert int(flat.what.size[np.isin(flat.span, copies)].sum()) == n_bytes
    assert not [w for w in trace.warnings if w.severity is Severity.DATA_LOSS]
