"""The traces that ``make bench`` writes for itself."""

import pytest
from bench_traces import is_there, lacking_bytes, provide, trace_file

from ggscope.model.trace import Severity
from ggscope.readers.registry import open_trace

KINDS = ("bin", "ggmlviz", "npu", "logs")


@pytest.mark.parametrize("kind", KINDS)
def test_trace_is_read_without_loss_and_has_its_size(kind, tmp_path):
    file = trace_file(kind, 20_000)
    trace = open_trace(provide(file, tmp_path))

    assert trace.check() == []
    assert not [w for w in trace.warnings if w.severity > Severity.NOTICE]
    assert 20_000 <= trace.info.n_records < 22_000
    size = (tmp_path / file.name).stat().st_size
    assert size == pytest.approx(file.n_bytes, rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_trace_is_the_same_every_time(kind, tmp_path):
    file = trace_file(kind, 5_000)
    one, other = tmp_path / "one", tmp_path / "other"

    for folder in (one, other):
        folder.mkdir()
        provide(file, folder)

    assert (one / file.name).read_bytes() == (other / file.name).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_trace_that_was_cut_is_written_again(kind, tmp_path):
    file = trace_file(kind, 5_000)
    path = provide(file, tmp_path)
    whole = path.stat().st_size
    assert is_there(file, tmp_path)

    path.write_bytes(path.read_bytes()[:-100])

    assert not is_there(file, tmp_path)
    assert provide(file, tmp_path).stat().st_size == whole


def test_disk_is_asked_only_for_what_is_not_there_yet(tmp_path):
    small, huge = trace_file("bin", 1_000), trace_file("bin", 10**15)
    provide(small, tmp_path)

    assert lacking_bytes([small], tmp_path) == 0
    assert lacking_bytes([small, huge], tmp_path) > 10**15
