"""The tracer in unmodified builds of llama.cpp: it records what was computed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from ggscope_capture import ring, targets
from ggscope_capture.ring_format import (
    DefCheck,
    DefMapping,
    EventHost,
    FrameType,
    HostCall,
    Mode,
    RingState,
    TensorFlag,
    experts_body,
    ubatch_body,
    unpack,
)
from tracing import Traced, check_records, command, run, tracer, tracer_environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the tracer was written for Linux only so far"
)
TARGETS = [
    ("npm_llama", "path"),
    ("npm_llama", "preload"),
    ("npm_llama", "both"),
    ("pypi_llama", "preload"),
]


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest,
    tiny_models: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[str, str, str], Traced]:
    """One traced run of each way in and model; made when it is asked for."""

    class Runs(dict[tuple[str, str, str], Traced]):
        def __missing__(self, key: tuple[str, str, str]) -> Traced:
            package, entry_point, model = key
            target = request.getfixturevalue(package)
            folder = tmp_path_factory.mktemp("traced")
            line = command(target, tiny_models[model], folder / "facts.json")
            self[key] = run(line, folder, tracer_environment(entry_point))
            return self[key]

    return Runs()


@pytest.mark.parametrize(("package", "entry_point"), TARGETS)
@pytest.mark.parametrize("model", ["nano", "nano-moe"])
def test_every_computed_node_has_a_record(
    package: str, entry_point: str, model: str, runs: dict[tuple[str, str, str], Traced]
) -> None:
    traced = runs[package, entry_point, model]
    steps = traced.facts["steps"][0]

    check_records(traced, lanes=1, graphs=len(steps))
    (check,) = traced.of(FrameType.CHECK)
    report = unpack(DefCheck, check.body)
    assert (report.result, report.mode) == (1, Mode.THREADS)
    assert traced.control["state"] == RingState.ENDED


@pytest.mark.parametrize(("package", "entry_point"), TARGETS)
def test_tokens_and_positions_are_those_of_the_program(
    package: str, entry_point: str, runs: dict[tuple[str, str, str], Traced]
) -> None:
    traced = runs[package, entry_point, "nano"]
    steps = traced.facts["steps"][0]
    at = 0

    for tokens, event in zip(steps, traced.of(FrameType.UBATCH), strict=True):
        ubatch = ubatch_body(event.body)
        assert [*ubatch.tokens] == tokens
        assert [*ubatch.positions] == list(range(at, at + len(tokens)))
        assert ubatch.head.phase == (1 if at == 0 else 2)
        at += len(tokens)


@pytest.mark.parametrize(("package", "entry_point"), TARGETS)
@pytest.mark.parametrize("model", ["nano", "nano-moe"])
def test_weights_lie_where_the_gguf_package_says(
    package: str,
    entry_point: str,
    model: str,
    runs: dict[tuple[str, str, str], Traced],
    tiny_models: dict[str, Path],
) -> None:
    traced = runs[package, entry_point, model]
    tensors = gguf.GGUFReader(tiny_models[model]).tensors
    expected = {t.name: (int(t.data_offset), int(t.n_bytes)) for t in tensors}

    registered = {
        name: (weight.offset, weight.size) for name, weight in traced.weights().items()
    }
    assert registered == expected
    # The other way: from the address of the data and where the file is mapped.
    mapped = [unpack(DefMapping, e.body) for e in traced.of(FrameType.MAPPING)]
    used = set()
    for _, parts in traced.builds().values():
        for tensor, name in parts:
            if not tensor["flags"] & TensorFlag.WEIGHT:
                continue
            base = name.split(" (")[0]
            if not tensor["flags"] & TensorFlag.VIEW:
                used.add(base)
                assert int(tensor["offset"]) == expected[base][0]
            places = [
                int(tensor["data"]) - place.address + place.offset
                for place in mapped
                if 0 <= int(tensor["data"]) - place.address < place.size
            ]
            if places:
                assert places[-1] == int(tensor["offset"])
    assert used == set(expected)


@pytest.mark.parametrize(("package", "entry_point"), TARGETS)
def test_experts_of_the_router_are_those_that_were_computed(
    package: str, entry_point: str, runs: dict[tuple[str, str, str], Traced]
) -> None:
    traced = runs[package, entry_point, "nano-moe"]

    messages: list[dict[tuple[int, int], np.ndarray]] = []
    for kind in (FrameType.EXPERTS, FrameType.ROUTER):
        lists = {}
        for event in traced.of(kind):
            head, raw_ids, raw_scores = experts_body(event)
            assert head.n_experts == 8
            ids = np.frombuffer(raw_ids, "<i4")
            assert len(ids) == head.rows * head.used
            assert np.all((ids >= 0) & (ids < 8))
            lists[head.graph, head.layer] = ids
            if kind == FrameType.ROUTER:
                scores = np.frombuffer(raw_scores, "<f4").reshape(-1, head.used)
                assert np.all((scores > 0) & (scores <= 1))
                assert np.all(np.diff(scores, axis=1) <= 0)
        messages.append(lists)
    computed, routed = messages
    assert len(computed) == 2 * len(traced.facts["steps"][0])
    assert computed.keys() == routed.keys()
    assert all(np.array_equal(computed[key], routed[key]) for key in computed)


@pytest.mark.parametrize(("package", "entry_point"), TARGETS)
def test_output_is_the_same_without_the_tracer(
    package: str,
    entry_point: str,
    runs: dict[tuple[str, str, str], Traced],
    request: pytest.FixtureRequest,
    tiny_models: dict[str, Path],
    tmp_path: Path,
) -> None:
    line = command(
        request.getfixturevalue(package), tiny_models["nano"], tmp_path / "facts"
    )

    plain = subprocess.run(line, capture_output=True, check=True).stdout

    assert runs[package, entry_point, "nano"].stdout == plain


def test_all_doors_show_the_same(runs: dict[tuple[str, str, str], Traced]) -> None:
    arrays = [
        np.concatenate(runs["npm_llama", entry_point, "nano"].records)
        for entry_point in ("path", "preload", "both")
    ]

    for other in arrays[1:]:
        assert np.array_equal(arrays[0]["node"], other["node"])
        assert np.array_equal(arrays[0]["graph"], other["graph"])


def test_two_threads_have_a_lane_each(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    line = command(npm_llama, tiny_models["nano"], tmp_path / "facts.json", threads=2)

    traced = run(line, tmp_path, tracer_environment("path"))

    check_records(traced, lanes=2, graphs=len(traced.facts["steps"][0]))
    assert len(traced.records) == 2


def test_two_contexts_at_once_are_distinguished(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    line = command(
        npm_llama, tiny_models["nano-moe"], tmp_path / "facts.json", "--contexts", "2"
    )

    traced = run(line, tmp_path, tracer_environment("path"))

    steps = traced.facts["steps"]
    check_records(traced, lanes=1, graphs=sum(map(len, steps)))
    contexts = {graph.context for graph in traced.graphs().values()}
    assert len(contexts) == 2


SERVER = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.warmup = 256, 1, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
server.handle_completions({"prompt": "sun", "max_tokens": 5, "temperature": 0})
"""


def test_a_server_shows_its_decodes_and_samples(
    pypi_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    line = [sys.executable, "-c", SERVER, str(tiny_models["nano"])]
    own = {"PYTHONPATH": str(pypi_llama.path.parent.parent)}

    traced = run(line, tmp_path, {**tracer_environment("preload"), **own})

    n = len(traced.graphs())
    assert n >= 5
    check_records(traced, lanes=1, graphs=n)
    host = [unpack(EventHost, e.body) for e in traced.of(FrameType.HOST)]
    times = {kind: [h for h in host if h.kind == kind] for kind in HostCall}
    assert len(times[HostCall.DECODE]) == len(times[HostCall.COMPUTE]) == n
    assert len(times[HostCall.SAMPLE]) >= 5
    for decode, compute in zip(
        times[HostCall.DECODE],
        times[HostCall.COMPUTE],
        strict=True,
    ):
        assert decode.begin <= compute.begin <= compute.end <= decode.end


def test_programs_without_ggml_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    done = subprocess.run(
        ["sh", "-c", "ls / >/dev/null && echo fine"],
        env={
            **tracer_environment("preload"),
            "GGSCOPE_RING": str(path),
            "PATH": "/bin:/usr/bin",
        },
        capture_output=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == (b"fine\n", b"")
    assert not path.exists()


def test_full_lanes_drop_what_is_new_and_count_it(
    npm_llama: targets.Target, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    line = command(npm_llama, tiny_models["nano"], tmp_path / "facts.json")
    line[line.index("-n") + 1] = "300"
    path = tmp_path / "ring"
    small = {"GGSCOPE_RING": str(path), "GGSCOPE_RING_SIZE": str(1 << 20)}

    subprocess.run(
        line,
        env={**tracer_environment("path"), **small},
        check=True,
        stdout=subprocess.PIPE,
    )

    with ring.Ring(path) as read:
        written = sum(map(len, read.records()))
        ends = [e for e in read.events() if e.type == FrameType.GRAPH_END]
        total = sum(int(np.frombuffer(e.body, "<u8", 1, 8)[0]) for e in ends)
        assert read.dropped() > 0
        assert written + read.dropped() == total
        assert read.value("events_dropped") == 0


def test_old_libraries_of_c_will_do() -> None:
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("there is no objdump here")
    stdout = subprocess.run(
        [objdump, "-T", tracer()], capture_output=True, text=True, check=True
    ).stdout

    versions = {
        tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", stdout)
    }

    assert max(versions) <= (2, 17)
    undefined = re.findall(r"\*UND\*.*\s(\w+)$", stdout, re.MULTILINE)
    assert not [name for name in undefined if name.startswith(("gg", "llama"))]
