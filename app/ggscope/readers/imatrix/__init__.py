"""Importance matrices of llama-imatrix, in both forms."""

from ggscope.readers.api import IMPORTANCE, ReaderInfo

INFO = ReaderInfo(
    "imatrix",
    "Importance matrix",
    (".dat", ".gguf", ".imatrix"),
    "What llama-imatrix collected while a model computed a text: how strongly each "
    "tensor, and in GGUF each expert, was used.",
    role=IMPORTANCE,
    magic=(b"GGUF",),
    is_binary=True,
)
