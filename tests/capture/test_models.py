"""The small models: the same bytes everywhere, read by the `gguf` package."""

import hashlib
from pathlib import Path

import gguf
import numpy as np
import pytest

from ggscope_capture import models

DIGESTS = {
    "dense": "c8607020375170cf",
    "moe": "133fca18cf0467f2",
    "nano": "bad372f6c961342f",
    "nano-moe": "db3b57b8e44cdd75",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_model_has_the_same_bytes_on_every_machine(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"

    models.write_model(path, name)

    assert hashlib.sha256(path.read_bytes()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("name", ["nano", "nano-moe"])
def test_model_has_the_tensors_of_its_shape(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shape = models.SHAPES[name]

    models.write_model(path, name)
    read = gguf.GGUFReader(path)

    per_layer = 10 if shape.experts else 9
    assert len(read.tensors) == 3 + per_layer * shape.layers
    tokens = read.fields["tokenizer.ggml.tokens"].contents()
    assert len(tokens) == len(set(tokens)) == shape.vocabulary


def test_control_and_byte_tokens_are_never_the_likeliest(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    models.write_model(path, "nano")

    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

    rows = np.asarray(tensors["output.weight"].data, np.float32)
    assert not rows[:259].any()
    assert rows[259:].any(axis=1).all()


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    models.write_model(tmp_path / "a.gguf", "nano")
    models.write_model(tmp_path / "b.gguf", "nano", seed=7)

    assert (tmp_path / "a.gguf").read_bytes() != (tmp_path / "b.gguf").read_bytes()
    assert not list(tmp_path.glob(".ggscope-*"))
