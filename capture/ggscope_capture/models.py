"""Small models with random weights, for the demo, the tests and the benchmarks.

They are real GGUF files that any llama.cpp loads: the architecture is llama, the
tokenizer a SentencePiece one that takes any text (bytes it has no piece for fall back
to byte tokens). The weights are random but the same on every machine: they are made
from the raw stream of PCG64, which numpy promises never to change, and not by its
distributions, which it may. Control and byte tokens have an output row of zeros, so
that what the model says can be read and does not end by itself.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from ggscope_capture.files import replacing

SEED = 42
_BYTES = 256
_CONTROLS = ("<unk>", "<s>", "</s>")
_FIRST_PIECE = len(_CONTROLS) + _BYTES
_SPACE = "▁"
"""How SentencePiece spells a space (U+2581)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of a model; `experts` is 0 where it is dense."""

    layers: int
    width: int
    hidden: int
    heads: int
    heads_kv: int
    vocabulary: int
    experts: int = 0
    experts_used: int = 0
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F16
    """Type of the matrices; norms and the router are F32."""


SHAPES = {
    "dense": Shape(
        layers=22, width=256, hidden=512, heads=8, heads_kv=4, vocabulary=512
    ),
    "moe": Shape(
        layers=4, width=256, hidden=512, heads=8, heads_kv=4, vocabulary=512,
        experts=8, experts_used=2,
    ),
    "nano": Shape(layers=2, width=64, hidden=128, heads=4, heads_kv=2, vocabulary=320),
    "nano-moe": Shape(
        layers=2, width=64, hidden=128, heads=4, heads_kv=2, vocabulary=320,
        experts=8, experts_used=2,
    ),
    "bench": Shape(
        layers=12, width=1024, hidden=2816, heads=16, heads_kv=16, vocabulary=2048,
        kind=gguf.GGMLQuantizationType.Q8_0,
    ),
}  # fmt: skip
"""The models by name; `bench` has 158 million parameters."""


def write_model(path: Path, name: str, *, seed: int = SEED) -> None:
    """Write one of `SHAPES` as a GGUF file; the same arguments give the same bytes.

    Raises
    ------
    KeyError
        If there is no model of this name.
    OSError
        If the file cannot be written.
    """
    shape = SHAPES[name]
    with replacing(path) as temporary:
        writer = gguf.GGUFWriter(temporary, "llama")
        _add_facts(writer, name, shape)
        _add_tokenizer(writer, shape.vocabulary)
        tensors = list(_tensors(shape))
        for tensor in tensors:
            kind, nbytes = tensor.stored(shape.kind)
            writer.add_tensor_info(
                tensor.name, tensor.dims, np.dtype(np.float32), nbytes, kind
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        stream = np.random.PCG64(seed)
        for tensor in tensors:
            kind, _ = tensor.stored(shape.kind)
            values = tensor.values(stream)
            writer.write_tensor_data(gguf.quants.quantize(values, kind))
        writer.close()


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor to be written; `dims` are numpy's, the last one is contiguous."""

    name: str
    dims: tuple[int, ...]

    @property
    def is_norm(self) -> bool:
        return len(self.dims) == 1

    def stored(
        self, matrices: gguf.GGMLQuantizationType
    ) -> tuple[gguf.GGMLQuantizationType, int]:
        """Return the type in the file and the size in bytes."""
        is_small = self.is_norm or "ffn_gate_inp" in self.name
        kind = gguf.GGMLQuantizationType.F32 if is_small else matrices
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        return kind, math.prod(self.dims) // block * block_bytes

    def values(self, stream: np.random.PCG64) -> NDArray[np.float32]:
        """Return the weights: ones for norms, else uniform, of variance 1/columns."""
        n = math.prod(self.dims)
        if self.is_norm:
            return np.ones(self.dims, np.float32)
        # Four numbers of 16 bits from each of 64; the byte order is stated, so that
        # the weights do not depend on the machine.
        raw = stream.random_raw(-(-n // 4)).astype("<u8").view("<u2")[:n]
        values = raw.astype(np.float32)
        values -= 32767.5
        values *= math.sqrt(3 / self.dims[-1]) / 32767.5
        values = values.reshape(self.dims)
        if self.name == "output.weight":
            values[:_FIRST_PIECE] = 0
        return values


def _tensors(shape: Shape) -> Iterator[_Tensor]:
    """Yield the tensors in the order of the file."""
    width, hidden = shape.width, shape.hidden
    kv = width // shape.heads * shape.heads_kv
    yield _Tensor("token_embd.weight", (shape.vocabulary, width))
    yield _Tensor("output_norm.weight", (width,))
    yield _Tensor("output.weight", (shape.vocabulary, width))
    for layer in range(shape.layers):
        parts: dict[str, tuple[int, ...]] = {
            "attn_norm": (width,),
            "attn_q": (width, width),
            "attn_k": (kv, width),
            "attn_v": (kv, width),
            "attn_output": (width, width),
            "ffn_norm": (width,),
        }
        if shape.experts:
            parts["ffn_gate_inp"] = (shape.experts, width)
            parts["ffn_gate_exps"] = (shape.experts, hidden, width)
            parts["ffn_up_exps"] = (shape.experts, hidden, width)
            parts["ffn_down_exps"] = (shape.experts, width, hidden)
        else:
            parts["ffn_gate"] = (hidden, width)
            parts["ffn_up"] = (hidden, width)
            parts["ffn_down"] = (width, hidden)
        for part, dims in parts.items():
            yield _Tensor(f"blk.{layer}.{part}.weight", dims)


def _add_facts(writer: gguf.GGUFWriter, name: str, shape: Shape) -> None:
    writer.add_name(f"ggscope {name}, random weights")
    writer.add_file_type(
        gguf.LlamaFileType.MOSTLY_Q8_0
        if shape.kind == gguf.GGMLQuantizationType.Q8_0
        else gguf.LlamaFileType.MOSTLY_F16
    )
    writer.add_context_length(2048)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(shape.vocabulary)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)


def _add_tokenizer(writer: gguf.GGUFWriter, vocabulary: int) -> None:
    """Add a SentencePiece tokenizer of `vocabulary` tokens, at least 260."""
    pieces = list(itertools.islice(_pieces(), vocabulary - _FIRST_PIECE))
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * _BYTES + [gguf.TokenType.NORMAL] * len(pieces)
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(_BYTES)]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*_CONTROLS, *byte_tokens, *pieces])
    # The higher score is merged first: longer pieces stand later and win.
    scores = [0.0] * _FIRST_PIECE + [float(i) for i in range(len(pieces))]
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def _pieces() -> Iterator[str]:
    """Yield the pieces in the order of their use: letters, syllables, words."""
    vowels = "aeiou"
    consonants = "bdfghklmnprstvwz"
    syllables = [a + b for a, b in itertools.product(consonants, vowels)]
    yield _SPACE
    yield from "etaoinshrdlucmfwypvbgkjqxz.,"
    yield from syllables[:16]
    yield from (_SPACE + syllable for syllable in syllables[:15])
    yield from (chr(code) for code in range(0x21, 0x7F) if chr(code) not in _LOWER)
    yield from syllables[16:]
    yield from (_SPACE + syllable for syllable in syllables[15:])
    yield from (a + b for a, b in itertools.product(syllables, syllables))


_LOWER = "abcdefghijklmnopqrstuvwxyz.,"
