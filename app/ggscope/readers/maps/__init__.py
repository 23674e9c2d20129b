"""Where the tensors of a model lie: maps, structure dumps, registries, names."""

from ggscope.readers.api import ReaderInfo

MEMORY_MAP_INFO = ReaderInfo(
    "memory-map",
    "Memory map of a model",
    (".json",),
    "Tensors of a model with their file offsets, exported for a web page.",
    role="map",
    keys=("tensors",),
)
STRUCTURE_INFO = ReaderInfo(
    "structure-csv",
    "Table of a model's tensors",
    (".csv", ".txt", ".log"),
    "Tensors of a GGUF file as its structure dump prints them.",
    role="map",
    line="tensor_name *,",
)
REGISTRY_INFO = ReaderInfo(
    "registry",
    "Tensor registry of the tracer",
    (".csv", ".txt"),
    "Tensors by their address in memory, as the tensor tracer registered them.",
    role="registry",
    line="tensor_idx *,",
)
NAMES_INFO = ReaderInfo(
    "tensor-names",
    "List of tensor names",
    (".txt",),
    "Names of tensors, one per line, perhaps with their numbers in the tracer's "
    "registry and their addresses.",
    role="registry",
    line=r"^[^\n,{]*\b(blk\.\d+\.\w|token_embd\b|output(_norm)?\.)",
    names=("tensor_names.txt",),
)
