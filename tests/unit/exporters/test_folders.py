"""Folders of people are in no part of a trace that a page is made of."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

import bench_files
import bigmoe_files
import ggscope
import imatrix_files
import log_files
import stack_files
import storage_files
from ggscope.exporters.folders import (
    text_without_folders,
    text_without_users,
    without_folders,
)
from ggscope.model.tables import StringTable
from ggscope.model.trace import Lanes, Trace

HOME = "/home/SECRET"


def _stacks() -> bytes:
    names = iter(f"{HOME}/src/f{i}.py(3): forward" for i in range(10_000))
    return stack_files.folded(stack_files.stacks(1, 30, names))


def _strace() -> bytes:
    reads = storage_files.random_reads(1, 40)
    return storage_files.strace(
        [replace(read, path=HOME + read.path) for read in reads]
    )


def _log() -> bytes:
    text = log_files.log(log_files.random_requests(1, 6))
    return text.replace(b"/models/tiny.gguf", f"{HOME}/models/tiny.gguf".encode())


def _routes() -> bytes:
    return (
        f"# route_trace v1\n# model={HOME}/m.gguf n_layer=1\n"
        "turn,phase,step,layer,slot,expert,weight\n0,0,0,0,0,1,0.5\n"
    ).encode()


def _compute() -> bytes:
    return bigmoe_files.compute_trace(1)[0].replace(b"/m/x.gguf", HOME.encode() + b"/x")


def _bench(form: str) -> bytes:
    rows = bench_files.rows(1, model_filename=f"{HOME}/my models/m.gguf")
    return bench_files.written(rows, form)


def _imatrix(write) -> bytes:
    return write(imatrix_files.entries(), dataset=f"{HOME}/wiki.txt")


FILES = {
    "routes": _routes,
    "compute": _compute,
    "bench json": lambda: _bench("json"),
    "bench csv": lambda: _bench("csv"),
    "imatrix": lambda: _imatrix(imatrix_files.legacy),
    "imatrix gguf": lambda: _imatrix(imatrix_files.gguf),
    "stacks": _stacks,
    "strace": _strace,
    "log": _log,
}


def texts(value: object) -> Iterator[str]:
    """Yield every text that a trace holds, wherever it stands."""
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, StringTable):
        yield from value.texts()
    elif isinstance(value, Lanes):
        yield from value.names
        yield from texts(value.groups)
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield from texts(tuple(value.values()))
    elif isinstance(value, tuple | list | frozenset):
        for one in value:
            yield from texts(one)


@pytest.fixture(params=FILES)
def trace(request, tmp_path) -> Trace:
    folder = tmp_path / "SECRET"
    folder.mkdir()
    path = folder / "file.txt"
    path.write_bytes(FILES[request.param]())
    return ggscope.open(path)


def test_no_folder_of_a_person_stays(trace: Trace) -> None:
    assert any("SECRET" in text for text in texts(trace))

    shown = without_folders(trace)

    assert [text for text in texts(shown) if "SECRET" in text] == []
    assert shown.check() == []
    assert len(shown.strings) == len(trace.strings)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/a/m.gguf", "m.gguf"),
        ("C:\\Users\\A B\\m.gguf", "m.gguf"),
        ("~/x/m.gguf", "m.gguf"),
        ("/home/a/bin/python -c /tmp/x.py --n=2", "python -c x.py --n=2"),
        ("process 9 /home/a/bin/python / thread 9 python",
         "process 9 python / thread 9 python"),
        ("/home/a/a.txt, /home/b/b.txt", "a.txt, b.txt"),
        ("threads = 4 / 8 | tokens/s, 3/4", "threads = 4 / 8 | tokens/s, 3/4"),
        ("blk.0/attn", "blk.0/attn"),
        ("", ""),
    ],
)  # fmt: skip
def test_facts_have_the_names_of_files(text: str, shown: str) -> None:
    assert text_without_folders(text) == shown


def test_model_is_the_name_of_one_file() -> None:
    assert text_without_folders("me/my models/m.gguf", "model_filename") == "m.gguf"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/a/src/x.py(3): f", "~/src/x.py(3): f"),
        ("/Users/a b/src/x.py", "~/src/x.py"),
        ("C:\\Users\\a b\\x.cpp", "~\\x.cpp"),
        ("read /home/a twice", "read ~ twice"),
        ("/usr/lib/libc.so.6", "/usr/lib/libc.so.6"),
        ("operator/(a, b)", "operator/(a, b)"),
        ("x/home/run", "x/home/run"),
    ],
)
def test_names_have_a_sign_for_the_folder_of_a_user(text: str, shown: str) -> None:
    assert text_without_users(text) == shown
