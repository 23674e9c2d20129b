"""Flags that ``ggscope flags`` writes, given to a real llama.cpp.

`make llama` builds it; without a build these tests skip.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.flags import flags
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from reads_builder import Op, Read, TensorRow, reads_trace
from tracing import built

_MOVED = re.compile(r"tensor (\S+) \(.*buffer type overridden to CPU")


def reading_some(model: Path, seed: int) -> Trace:
    """Return a trace that has the tensors of a model file and reads some of them."""
    file = open_trace(model)
    of = file.tensors
    assert of.n_experts is not None
    rows = [
        TensorRow(
            file.strings[int(of.name[i])],
            int(of.offset[i]),
            int(of.size[i]),
            int(of.layer[i]),
            int(of.n_experts[i]),
        )
        for i in range(len(of))
    ]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(rows), 40).tolist()
    ops = [Op(12 * i, (Read(row, rows[row].size),)) for i, row in enumerate(chosen)]
    return reads_trace(rows, ops)


def answer(program: Path, *arguments: str) -> str:
    """Return what llama.cpp says; it must not end with a fault of the arguments."""
    line = [str(program), "-no-cnv", "-n", "1", "-p", "a", *arguments]
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    text = (done.stdout + done.stderr).decode(errors="replace")
    assert "error while handling argument" not in text
    return text


@pytest.mark.parametrize("seed", range(3))
def test_llama_moves_the_tensors_that_were_not_kept(
    seed: int, tiny_models: dict[str, Path]
) -> None:
    program, model = built("shared"), tiny_models["nano-moe"]
    trace = reading_some(model, seed)
    result = flags(trace, int(trace.tensors.size.sum()) * (seed + 1) // 5)
    assert result.placement is not None

    message = answer(
        program,
        "-m",
        str(model),
        "-v",
        "-ngl",
        "99",
        "-ot",
        result.placement.expression,
    )

    assert set(_MOVED.findall(message)) == set(result.placement.host)


def test_llama_moves_the_experts_of_so_many_layers(
    tiny_models: dict[str, Path],
) -> None:
    program, model = built("shared"), tiny_models["nano-moe"]
    trace = reading_some(model, 0)
    size = dict(
        zip(
            (trace.strings[i] for i in trace.tensors.name.tolist()),
            trace.tensors.size.tolist(),
            strict=True,
        )
    )
    all_of_it = flags(trace, 1 << 40).cpu_layers
    assert all_of_it is not None
    cpu_layers = flags(trace, all_of_it.device_size - 1).cpu_layers
    assert cpu_layers is not None
    assert cpu_layers.n == 1

    message = answer(program, "-m", str(model), "-v", "--n-cpu-moe", str(cpu_layers.n))

    moved = set(_MOVED.findall(message))
    assert sum(size[name] for name in moved) == cpu_layers.host_size > 0


def test_llama_takes_all_flags_together(tiny_models: dict[str, Path]) -> None:
    trace = reading_some(tiny_models["nano-moe"], 1)
    result = flags(trace, int(trace.tensors.size.sum()) // 2)
    placement, layers, threads = result.placement, result.cpu_layers, result.threads
    assert placement is not None
    assert layers is not None
    assert threads is not None

    message = answer(
        built("shared"), "-ot", placement.expression, "--n-cpu-moe", str(layers.n),
        "-t", str(threads.n), "--version",
    )  # fmt: skip

    assert "version: " in message
