"""``ggscope residency``: what of a model file is in the page cache now."""

import json
import sys

import pytest

from cached_files import PAGE, evict, read_pages
from gguf_files import T, encode

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows tells nothing of the page cache"
)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model ü.gguf"
    tensors = [
        T("a.weight", (64, 64)),
        T("b.weight", (64, 640)),
        T("c.weight", (64, 64)),
    ]
    path.write_bytes(encode(tensors))
    return path


def test_pages_that_are_not_in_memory_are_told_by_tensor(run, model):
    size = model.stat().st_size
    evict(model)
    last = size // PAGE
    read_pages(model, last, 1)

    value = json.loads(run("residency", str(model), "--json").out)

    assert value["known"] is True
    assert value["why"] is None
    assert value["file_bytes"] == size
    assert value["file_resident_bytes"] == size - last * PAGE
    held = {t["name"]: t["resident_bytes"] for t in value["tensors"]}
    assert held["a.weight"] == held["b.weight"] == 0
    assert held["c.weight"] > 0


def test_tensors_that_lack_most_stand_first(run, model):
    evict(model)

    out = run("residency", str(model)).out

    assert out.startswith("0 B of ")
    assert "are in the page cache now, by mincore." in out
    assert "Tensors: 0 whole, 0 in part, 3 not at all." in out
    assert out.splitlines()[4].startswith("b.weight")


def test_file_that_was_read_is_in_memory(run, model):
    model.read_bytes()

    value = json.loads(run("residency", str(model), "--json").out)

    assert value["file_resident_bytes"] == value["file_bytes"]
    assert all(t["resident_bytes"] == t["bytes"] for t in value["tensors"])


def test_what_the_system_does_not_tell_is_not_known(run, model, monkeypatch):
    from ggscope.live import residency

    monkeypatch.setattr(residency, "_mincore", lambda: None)

    answer = run("residency", str(model), "--json")

    value = json.loads(answer.out)
    assert answer.code == 1
    assert value["known"] is False
    assert value["file_resident_bytes"] is None
    assert {t["resident_bytes"] for t in value["tensors"]} == {None}
    assert "not known: this system does not tell" in answer.err
