"""What kind of call a function makes, and what its results are called."""

from functools import lru_cache

from ggscope.model.tables import CallKind

_WORDS = (
    (CallKind.MEMORY_MGMT, ("MemAlloc", "MemFree")),
    (CallKind.TRANSFER, ("Memcpy",)),
    (CallKind.KERNEL, ("Launch",)),
    (CallKind.CONTEXT, ("Ctx",)),
    (CallKind.STREAM, ("Stream",)),
    (CallKind.MODULE, ("Module",)),
    (CallKind.INIT, ("Init", "Device")),
    (CallKind.SYNC, ("Synchronize",)),
)
"""As in the script ``visualize_pipeline.py`` beside the call hooks: the first wins, so
that ``cuCtxSynchronize`` is of a context."""
_ERRORS = {
    1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 4: "DEINITIALIZED",
    100: "NO_DEVICE", 101: "INVALID_DEVICE", 200: "INVALID_IMAGE",
    201: "INVALID_CONTEXT", 209: "NO_BINARY_FOR_GPU", 218: "INVALID_PTX",
    222: "UNSUPPORTED_PTX_VERSION", 300: "INVALID_SOURCE", 301: "FILE_NOT_FOUND",
    400: "INVALID_HANDLE", 500: "NOT_FOUND", 600: "NOT_READY", 700: "ILLEGAL_ADDRESS",
    701: "LAUNCH_OUT_OF_RESOURCES", 702: "LAUNCH_TIMEOUT", 719: "LAUNCH_FAILED",
    801: "NOT_SUPPORTED", 999: "UNKNOWN",
}  # fmt: skip
"""Words of ``CUresult``, without CUDA_ERROR."""


@lru_cache(maxsize=4096)
def category_of(function: str) -> CallKind:
    """Return the kind of call that a function makes, by its name."""
    for kind, keywords in _WORDS:
        if any(word in function for word in keywords):
            return kind
    return CallKind.OTHER


def error_text(function: str, result: int) -> str:
    """Return the number of an error, with its word where it is a function of CUDA."""
    is_driver = function.startswith("cu") and not function.startswith("cuda")
    word = _ERRORS.get(result, "") if is_driver else ""
    return f"{result} CUDA_ERROR_{word}" if word else str(result)
