"""The metadata of a GGUF head as short facts for people and for joining."""

from ggscope.model.ggml_types import file_type_name
from ggscope.readers.gguf_data import GgufField, GgufHeader, Scalar

MAX_FACTS = 512
_MAX_TEXT = 200
_ARCHITECTURE = "general.architecture"
_TOKENS = "tokenizer.ggml.tokens"
_EMBEDDING = "token_embd.weight"
_DERIVED = (
    ("n_layers", "block_count"),
    ("n_vocab", "vocab_size"),
    ("n_embd", "embedding_length"),
    ("n_experts", "expert_count"),
    ("n_experts_used", "expert_used_count"),
    ("n_ctx", "context_length"),
)
"""(our name, key behind the architecture)."""


def model_facts(header: GgufHeader) -> dict[str, str]:
    """Return metadata by key: the derived facts first, then the file's own keys.

    Derived are ``n_layers, n_vocab, n_embd, n_experts, n_experts_used, n_ctx`` and
    ``file_type``, each only where the file tells it. Long texts and arrays stand as
    their length.
    """
    facts: dict[str, str] = {}
    architecture = header.text(_ARCHITECTURE)
    for name, key in _DERIVED:
        value = header.integer(f"{architecture}.{key}")
        if name == "n_vocab" and value < 0:
            value = _n_vocab(header)
        if value >= 0:
            facts[name] = str(value)
    kind = file_type_name(header.integer("general.file_type"))
    if kind:
        facts["file_type"] = kind
    for key, found in header.fields.items():
        if len(facts) >= MAX_FACTS:
            break
        facts[key] = _text(found)
    return facts


def model_name(header: GgufHeader, file_name: str) -> str:
    """Return what the model calls itself, else the name of its file."""
    return header.text("general.name") or file_name


def _n_vocab(header: GgufHeader) -> int:
    """Return the number of tokens, by the vocabulary or the embedding's rows."""
    tokens = header.fields.get(_TOKENS)
    if tokens is not None:
        return tokens.length
    for tensor in header.tensors:
        if tensor.name == _EMBEDDING and len(tensor.shape) > 1:
            return tensor.shape[1]
    return -1


def _text(found: GgufField) -> str:
    value = found.value
    if isinstance(value, tuple):
        text = f"[{', '.join(map(_scalar, value))}]"
        return text if len(text) <= _MAX_TEXT else f"{found.length:,} values"
    if value is None:
        what = "values" if found.is_array else "bytes of text"
        return f"{found.length:,} {what}"
    text = _scalar(value)
    return text if len(text) <= _MAX_TEXT else f"{found.length:,} bytes of text"


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"
    return str(value)


__all__ = ["MAX_FACTS", "model_facts", "model_name"]
