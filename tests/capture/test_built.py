"""llama.cpp's own programs, built from its source: with libraries, and static.

`make llama` builds them, once; where it was not called these tests skip.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.readers.tensor.layouts import FIRST_EXTENSION_OP
from ggscope_capture import codemod, doctor, record, targets
from ggscope_capture.__main__ import main
from ggscope_capture.ring_format import CPU_BITS
from recordings import facts_of
from tracing import CACHE, built, info, tracer

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="tried on Linux only"
)
TOKENS, LENGTH = 6, 24
PROMPTS = ["sun and moon", "once upon a time"]


def command(program: Path, model: Path, threads: int) -> list[str]:
    target = targets.Target(path=program, kind="program", origin="source")
    return target.command(model, "sun and moon", tokens=LENGTH, threads=threads)


def captured(out: Path) -> list[str]:
    tracer()  # as its sources are now
    run = [sys.executable, "-m", "ggscope_capture", "run", "--require"]
    return [*run, "-o", str(out), "--"]


def run_passive(line: list[str]) -> subprocess.CompletedProcess[bytes]:
    calm = os.environ | {"OMP_WAIT_POLICY": "passive"}  # the cores are shared
    return subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60,
        env=calm,
    )  # fmt: skip


def check_trace(out: Path, threads: int) -> dict[str, Any]:
    """Each computed node once on each thread of each graph; return the sidecar."""
    sidecar: dict[str, Any] = facts_of(out)
    computed = {build["build"]: build["computed"] for build in sidecar["builds"]}
    graphs = sidecar["graph_list"]
    assert {graph["n_threads"] for graph in graphs} == {threads}
    expected = sum(computed[graph["build"]] * threads for graph in graphs)
    assert sidecar["records"] == expected > 0
    facts = (sidecar["mode"], sidecar["lost"], sidecar["lost_events"])
    assert facts == ("threads", 0, 0)
    assert (sidecar["unnamed_ops"], sidecar["lost_definitions"]) == (0, 0)
    records = np.fromfile(out, record.TRACE)
    # Lists of experts lie among the ops, and have no core.
    extra = records["sources"]["more"][records["op"] < FIRST_EXTENSION_OP, 3]
    assert len(extra) == expected
    cores = set((extra & (1 << CPU_BITS) - 1).tolist())
    assert cores <= os.sched_getaffinity(0) or cores == {(1 << CPU_BITS) - 1}
    lived = [b for b in sidecar["buffers"] if b["size"] > 0 and b["allocated"]]
    assert all(b["allocated"] <= b["freed"] for b in lived)
    assert 2 in {b["usage"] for b in lived}  # what is computed in
    read = info(out)
    spans = sorted(lane["spans"] for lane in read["lanes"] if lane["kind"] == "thread")
    # Requests at the same time have lanes of their own.
    assert sum(spans) == expected
    of_quality = read["spans_by_quality"]
    assert (of_quality["derived"], of_quality["estimated"]) == (0, 0)
    return sidecar


@pytest.mark.parametrize(
    ("kind", "model", "threads"),
    [("shared", "nano", 1), ("shared", "nano-moe", 2), ("changed", "nano-moe", 1)],
)
def test_completion_is_traced_as_it_is(
    kind: str, model: str, threads: int, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    line = command(built(kind), tiny_models[model], threads)
    out = tmp_path / "out.bin"

    plain = [run_passive(line) for _ in range(2)]
    traced = run_passive(captured(out) + line)

    assert traced.returncode == 0, traced.stderr
    # By itself, too, this program often ends before it has printed its last words.
    longest = max((done.stdout for done in plain), key=len)
    n = min(len(longest), len(traced.stdout))
    assert traced.stdout[:n] == longest[:n]
    sidecar = check_trace(out, threads)
    assert len(sidecar["graph_list"]) == LENGTH
    assert sidecar["extension_records"] > 0 if "moe" in model else True


def test_demo_keeps_the_program_that_it_finds_to_a_pace(tmp_path: Path) -> None:
    program = built("shared")
    line = [sys.executable, "-m", "ggscope_capture", "demo", str(tmp_path)]
    line += ["--model", "nano", "--tokens", "6", "--threads", "1", "--pace", "50"]
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        line, env=os.environ | {"PATH": path}, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert f"running {program}".encode() in done.stderr
    sidecar = facts_of(tmp_path / "nano.bin")
    (note,) = sidecar["notes"]
    assert "limited to 50 tokens per second" in note
    begins = [c["begin"] for c in sidecar["host"] if c["kind"] == "decode"]
    assert len(begins) == 6
    assert (np.diff(np.sort(begins)) >= 20_000_000).all()


def test_library_that_calls_itself_directly_shows_begins(
    tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    """As builds with LTO or -Bsymbolic are: the same objects, linked that way."""
    program = built("shared")
    objects = (program.parent.parent / "ggml/src/CMakeFiles/ggml-cpu.dir").rglob("*.o")
    library = tmp_path / "libggml-cpu.so.0"
    way = ["-shared", "-Wl,-Bsymbolic", "-Wl,-soname,libggml-cpu.so.0", "-fopenmp"]
    base = [f"-L{program.parent}", "-lggml-base"]
    subprocess.run(["c++", *way, *objects, *base, "-o", library], check=True)
    out, threads = tmp_path / "out.bin", 2
    line = command(program, tiny_models["nano-moe"], threads)
    env = ["env", f"LD_LIBRARY_PATH={tmp_path}", "OMP_WAIT_POLICY=passive"]

    done = run_passive([*env, *captured(out), *line])

    assert done.returncode == 0, done.stderr
    sidecar = facts_of(out)
    (check,) = sidecar["checks"]
    (computed,) = {build["computed"] for build in sidecar["builds"]}
    n_seen = computed - check["missing_nodes"]
    assert (
        0 < check["missing_nodes"] < computed / 2
    )  # what runs as one is not asked for
    assert sidecar["mode"] == "begins"
    assert sidecar["records"] == n_seen * threads * LENGTH
    assert "by their beginnings only" in sidecar["notes"][0]


@contextmanager
def served(line: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the caller has what it wants; then it ends by SIGTERM."""
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            until = time.monotonic() + 40
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
                    break
                except OSError:
                    assert child.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield child
        finally:
            child.terminate()
            child.communicate(timeout=30)


def completed(port: int, prompt: str) -> str:
    question = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "seed": 1}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion", json.dumps(question).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=30) as result:
        return str(json.load(result)["content"])


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_server_is_traced_while_it_answers(
    tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    out, port = tmp_path / "out.bin", free_port()
    line = [str(built("shared", "llama-server")), "-m", str(tiny_models["nano"])]
    line += ["-t", "1", "-np", "2", "-c", "256", "--no-warmup", "--port", str(port)]

    with served(line, port):
        plain = [completed(port, prompt) for prompt in PROMPTS]
    with served(captured(out) + line, port) as child, ThreadPoolExecutor(2) as pool:
        traced = list(pool.map(lambda prompt: completed(port, prompt), PROMPTS))

    assert child.returncode == 0
    assert traced == plain
    sidecar = check_trace(out, 1)
    n_tokens = sum(len(ubatch["tokens"]) for ubatch in sidecar["ubatches"])
    assert n_tokens >= len(PROMPTS) * TOKENS
    kinds = {host["kind"] for host in sidecar["host"]}
    assert {"decode", "compute", "sample"} <= kinds


def test_server_with_a_draft_model_lacks_no_op(
    tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    """Two models in turns; prompts of the draft ask for no output of their own."""
    out, port = tmp_path / "out.bin", free_port()
    line = [str(built("shared", "llama-server")), "-m", str(tiny_models["nano-moe"])]
    line += ["-md", str(tiny_models["nano"]), "--spec-type", "draft-simple"]
    line += ["-t", "1", "-td", "1", "-np", "2", "-c", "256", "--no-warmup"]

    with (
        served([*captured(out), *line, "--port", str(port)], port) as child,
        ThreadPoolExecutor(2) as pool,
    ):
        list(pool.map(lambda prompt: completed(port, prompt), PROMPTS))

    assert child.returncode == 0
    sidecar = check_trace(out, 1)
    account = sidecar["account"]
    assert account["recorded"] == account["computed"] == sidecar["records"]
    assert [Path(model["path"]).name for model in sidecar["models"]] == [
        "nano-moe.gguf", "nano.gguf",
    ]  # fmt: skip
    # The draft's graphs are among them: it has a context of its own.
    contexts = {graph["context"] for graph in sidecar["graph_list"]}
    assert len(contexts) == 2


@contextmanager
def remote_backend(port: int) -> Iterator[None]:
    """Run a backend of another process, on the CPU: a device where there is no GPU."""
    line = [str(built("shared", "ggml-rpc-server")), "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(
        [*line, "-t", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        try:
            until = time.monotonic() + 40
            while True:
                with socket.socket() as tried:
                    if tried.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert child.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            yield
        finally:
            child.kill()


@pytest.mark.parametrize("n_layers", [2, 99])
def test_two_backends_show_their_splits_and_copies(
    n_layers: int, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    """A backend of its own memory, as a GPU is, gets layers of the model, or all."""
    out, port = tmp_path / "out.bin", free_port()
    line = command(built("shared"), tiny_models["nano-moe"], 1)
    line += ["--rpc", f"127.0.0.1:{port}", "-ngl", str(n_layers)]

    with remote_backend(port):
        done = run_passive(captured(out) + line)

    assert done.returncode == 0, done.stderr
    sidecar = facts_of(out)
    graphs = sidecar["graph_list"]
    assert [graph["split"] for graph in graphs] == [0, 1] * LENGTH
    backends = [graph["backend"] for graph in graphs]
    assert backends[0] != backends[1]
    assert backends == backends[:2] * LENGTH
    assert [graph["backend_number"] for graph in graphs] == [1, 2] * LENGTH
    cpu, card = sidecar["backends"]
    assert (cpu["name"], cpu["device"]) == ("CPU", "CPU")
    assert cpu["description"]
    assert card["name"].startswith("RPC")
    assert [cpu["pointer"], card["pointer"]] == backends[:2]
    ubatches = [ubatch["ubatch"] for ubatch in sidecar["ubatches"]]
    assert [graph["ubatch"] for graph in graphs] == [
        number for number in ubatches for _ in range(2)
    ]
    # The CPU's ops are seen one by one, the other's graphs as wholes.
    computed = {build["build"]: build["computed"] for build in sidecar["builds"]}
    own, remote = graphs[::2], graphs[1::2]
    assert sidecar["records"] == sum(computed[graph["build"]] for graph in own)
    assert [graph["graph"] for graph in sidecar["whole_graphs"]] == [
        graph["graph"] for graph in remote
    ]
    assert (sidecar["lost"], sidecar["lost_events"], sidecar["notes"]) == (0, 0, [])
    read = info(out)
    whole = [
        (each["detail"], each["count"])
        for each in read["coverage"]["omissions"]
        if each["cause"] == "graphs_whole"
    ]
    assert whole == [(card["name"], LENGTH)]
    # A ubatch ends when the program has waited for its result.
    first = {graph["ubatch"]: graph["begin"] for graph in own}
    last = {graph["ubatch"]: graph["end"] for graph in remote}
    ends = dict[int, int]()
    for call in sidecar["host"]:
        ubatch = call["ubatch"]
        if call["kind"] == "sync" and call["begin"] >= last.get(ubatch, 1 << 63):
            ends.setdefault(ubatch, call["end"])
    took = sum(ends[ubatch] - first[ubatch] for ubatch in ubatches)
    assert sum(phase["time"] for phase in read["latency"]) == took
    assert {phase["quality"] for phase in read["latency"]} == {"measured"}
    # All that one needs of the other is copied between the two graphs, each time.
    names = {buffer["buffer"]: buffer["name"] for buffer in sidecar["buffers"]}
    copies = sidecar["copies"]
    assert {names[copy["from_buffer"]] for copy in copies} == {"CPU"}
    assert {names[copy["to_buffer"]] for copy in copies} == {f"RPC0[127.0.0.1:{port}]"}
    each = [copy["name"] for copy in copies[: len(copies) // LENGTH]]
    assert [copy["name"] for copy in copies] == each * LENGTH
    assert "inp_pos" in each
    assert ("embd" in each) == (n_layers == 99)
    for i, graph in enumerate(remote):
        mine = copies[i * len(each) : (i + 1) * len(each)]
        assert own[i]["end"] <= mine[0]["begin"]
        assert all(copy["begin"] <= copy["end"] for copy in mine)
        assert mine[-1]["end"] <= graph["begin"]
        assert all(copy["bytes"] > 0 for copy in mine)


def test_static_program_runs_untraced_and_learns_why(
    tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    program = built("static")
    line = command(program, tiny_models["nano"], 1)
    out = tmp_path / "out.bin"

    report = doctor.examine(program)
    required = run_passive(captured(out) + line)
    lax = run_passive([word for word in captured(out) if word != "--require"] + line)

    assert (report.linkage, report.works) == ("static", False)
    assert "ggscope-capture codemod" in report.advice
    assert required.returncode == 125
    assert lax.returncode == 0
    assert b"runs untraced: ggml is linked statically into the program" in lax.stderr
    assert not out.exists()


def test_the_real_sources_are_changed_and_changed_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = CACHE / "llama.cpp"
    if not tree.is_dir():
        pytest.skip(f"there is no {tree}: `make llama` brings it")
    checkout = tmp_path / "llama.cpp"
    for part in ("ggml/include", "ggml/src", "src"):
        shutil.copytree(
            tree / part, checkout / part, ignore=shutil.ignore_patterns("ggml-[!c]*")
        )
    before = contents(checkout)

    assert main(["codemod", str(checkout), "--check"]) == 0
    assert contents(checkout) == before
    assert "(required)" not in capsys.readouterr().out
    assert main(["codemod", str(checkout)]) == 0
    state = codemod.inspect(checkout)
    assert set(state.changed) >= set(codemod.REQUIRED)
    assert contents(checkout) != before
    assert main(["codemod", str(checkout), "--undo"]) == 0
    assert contents(checkout) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
