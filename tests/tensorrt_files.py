"""Makes trtexec's exports, with what was put in."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

RUNS = 4216


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer; `total` is ms over all runs, `mean` of one."""

    name: str
    kind: str
    shape: tuple[int, ...]
    total: Decimal
    mean: Decimal


def layers(seed: int, n: int = 30, names: Iterator[str] | None = None) -> list[Layer]:
    """Return layers of an engine."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        kind = ("Convolution", "Reformat", "MatrixMultiply")[int(rng.integers(0, 3))]
        mean = Decimal(int(rng.integers(1, 10**7))) / 10**9
        name = next(names) if names is not None else f"blk.{i}.weight + {kind}_{i}"
        shape = (1, int(rng.integers(1, 2048)), 56, 56)
        made.append(Layer(name, kind, shape, mean * RUNS, mean))
    return made


def profile(
    made: list[Layer], *, has_count: bool = True, has_sums: bool = True
) -> bytes:
    """Return what ``--exportProfile`` writes, with its commas before the elements."""
    rows = [f'  {{ "count" : {RUNS} }}'] if has_count else []
    for layer in made:
        total = f'"timeMs" : {layer.total}, ' if has_sums else ""
        rows.append(
            f'{{ "name" : {json.dumps(layer.name)}, {total}'
            f'"averageMs" : {layer.mean}, "medianMs" : {layer.mean}, '
            '"percentage" : 1.88608 }'
        )
    return ("[\n" + "\n, ".join(rows) + "\n]\n").encode()


def layer_info(made: list[Layer], *, names_only: bool = False) -> bytes:
    """Return what ``--exportLayerInfo`` writes."""
    listed = [
        layer.name
        if names_only
        else {
            "Name": layer.name,
            "LayerType": layer.kind,
            "Inputs": [],
            "Outputs": [
                {
                    "Name": "out",
                    "Dimensions": list(layer.shape),
                    "Format/Datatype": "Row major linear FP16 format",
                }
            ],
            "TacticName": "sm80_xmma",
        }
        for layer in made
    ]
    return json.dumps({"Layers": listed, "Bindings": ["images"]}).encode()
