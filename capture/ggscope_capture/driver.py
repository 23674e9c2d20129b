"""Text generation with the shared libraries of an unmodified llama.cpp.

Packages ship llama.cpp as libraries without a program to start, so this is one:
``python -m ggscope_capture.driver --libs FOLDER -m model.gguf -p TEXT -n 32 -t 2``. It
calls the public C functions only, chooses the likeliest token each time, and streams
the text to stdout.

The structures that llama.cpp passes by value grow with its versions. They are handled
whole, in blocks larger than any of them: a function that returns one writes into the
block, and one that takes one as its last argument reads as much of it as it knows.
No field is touched but those of `llama_batch`, which have stayed as they are; threads
are set by a call.
"""

import argparse
import codecs
import ctypes
import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ggscope_capture import files

MIN_PACE = 0.01
MIN_PACE_MESSAGE = f"the pace must be at least {MIN_PACE} tokens per second"
_CONTEXT = 512
"""Tokens of a context that is made with the library's own defaults."""


class _Block(ctypes.Structure):
    """An opaque structure, passed by value."""

    _fields_ = (("bytes", ctypes.c_uint8 * 1024),)


class _Batch(ctypes.Structure):
    """`llama_batch`."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.c_void_p),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.c_void_p),
        ("n_seq_id", ctypes.c_void_p),
        ("seq_id", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    )


_P, _I, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [_P, _P]),
    "llama_model_default_params": (_Block, []),
    "llama_context_default_params": (_Block, []),
    "llama_model_load_from_file": (_P, [ctypes.c_char_p, _Block]),
    "llama_init_from_model": (_P, [_P, _Block]),
    "llama_model_get_vocab": (_P, [_P]),
    "llama_vocab_n_tokens": (_I, [_P]),
    "llama_vocab_is_eog": (_B, [_P, _I]),
    "llama_tokenize": (_I, [_P, ctypes.c_char_p, _I, _P, _I, _B, _B]),
    "llama_token_to_piece": (_I, [_P, _I, ctypes.c_char_p, _I, _I, _B]),
    "llama_set_n_threads": (None, [_P, _I, _I]),
    "llama_batch_get_one": (_Batch, [_P, _I]),
    "llama_decode": (_I, [_P, _Batch]),
    "llama_get_logits_ith": (_P, [_P, _I]),
    "llama_free": (None, [_P]),
    "llama_model_free": (None, [_P]),
}
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class DriverError(Exception):
    """llama.cpp could not be loaded, or refused; the text says what and where."""


class Llama:
    """The functions of a llama.cpp that lies in a folder (or is one library)."""

    def __init__(self, place: Path, *, quiet: bool = True) -> None:
        """Load the libraries and the CPU backend; raises DriverError."""
        self._quiet = _LOG(lambda level, text, data: None)
        folder = place if place.is_dir() else place.parent
        self._library = self._load(place)
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise DriverError(
                    f"{place}: unsupported version of llama.cpp, it lacks {name}"
                ) from None
            function.restype = result
            function.argtypes = arguments
        if quiet:
            self._library.llama_log_set(ctypes.cast(self._quiet, _P), None)
        self._load_backends(folder)
        self._library.llama_backend_init()

    @staticmethod
    def _load(place: Path) -> ctypes.CDLL:
        files_of_llama = (
            [place] if place.is_file() else sorted(place.glob("libllama.*"))
        )
        for path in files_of_llama:
            try:
                return ctypes.CDLL(str(path.resolve()))
            except OSError as error:
                raise DriverError(f"{path} cannot be loaded: {error}") from None
        raise DriverError(f"no libllama in {place}")

    def _load_backends(self, folder: Path) -> None:
        """Let ggml load its backends, if it loads them at run time."""
        for path in sorted(folder.glob("libggml.*")):
            ggml = ctypes.CDLL(str(path.resolve()))
            load = getattr(ggml, "ggml_backend_load_all_from_path", None)
            if load is not None:
                load.restype, load.argtypes = None, [ctypes.c_char_p]
                load(str(folder).encode())
                return

    def load_model(self, path: Path) -> int:
        """Return the model of a file; raises DriverError."""
        library = self._library
        model = library.llama_model_load_from_file(
            str(path).encode(), library.llama_model_default_params()
        )
        if not model:
            raise DriverError(f"{path}: llama.cpp cannot load this model")
        return int(model)

    def free_model(self, model: int) -> None:
        """Free the model; its runs have ended."""
        self._library.llama_model_free(model)

    def tokens(self, model: int, text: str) -> list[int]:
        """Return the tokens of a text, BOS included."""
        vocabulary = self._library.llama_model_get_vocab(model)
        data = text.encode()
        buffer = (ctypes.c_int32 * (len(data) + 2))()
        n = self._library.llama_tokenize(
            vocabulary, data, len(data), buffer, len(buffer), True, True
        )
        return list(buffer[: max(n, 0)])

    def piece(self, model: int, token: int) -> bytes:
        """Return the bytes of a token's text; they may end within a character."""
        vocabulary = self._library.llama_model_get_vocab(model)
        buffer = ctypes.create_string_buffer(256)
        n = self._library.llama_token_to_piece(vocabulary, token, buffer, 256, 0, True)
        return buffer.raw[: max(n, 0)]


class Run:
    """One context that continues a prompt."""

    def __init__(self, llama: Llama, model: int, threads: int) -> None:
        """Create the context; raises DriverError."""
        self._llama = llama
        self._library = llama._library
        self._model = model
        self._context = self._library.llama_init_from_model(
            model, self._library.llama_context_default_params()
        )
        if not self._context:
            raise DriverError("llama.cpp cannot create a context for this model")
        self._library.llama_set_n_threads(self._context, threads, threads)
        self.eval_s = 0.0
        """Seconds of all decodes but the first, the prompt's."""
        self.steps: list[list[int]] = []
        """The tokens of each decode, in order."""

    def generate(
        self, prompt: list[int], n: int, show: bool, pace: float = math.inf
    ) -> None:
        """Decode the prompt and then `n` - 1 tokens, at most `pace` of them a second.

        Where it is behind, it does not catch up.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        vocabulary = self._library.llama_model_get_vocab(self._model)
        n_vocabulary = self._library.llama_vocab_n_tokens(vocabulary)
        tokens = prompt
        due = time.monotonic()
        for _ in range(n):
            time.sleep(max(0.0, due - time.monotonic()))
            due = time.monotonic() + 1 / pace
            self._decode(tokens)
            logits = self._library.llama_get_logits_ith(self._context, -1)
            floats = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
            values: NDArray[np.float32] = np.ctypeslib.as_array(floats, (n_vocabulary,))
            token = int(values.argmax())
            if show:
                sys.stdout.write(decoder.decode(self._llama.piece(self._model, token)))
                sys.stdout.flush()
            if self._library.llama_vocab_is_eog(vocabulary, token):
                break
            tokens = [token]

    def _decode(self, tokens: list[int]) -> None:
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        batch = self._library.llama_batch_get_one(ids, len(tokens))
        started = time.perf_counter()
        status = self._library.llama_decode(self._context, batch)
        if self.steps:
            self.eval_s += time.perf_counter() - started
        if status != 0:
            raise DriverError(f"llama_decode failed with {status}")
        self.steps.append(tokens)

    def free(self) -> None:
        """Free the context."""
        self._library.llama_free(self._context)


def run(options: argparse.Namespace) -> None:
    """Generate text as the options say; raises DriverError."""
    llama = Llama(options.libs, quiet=not options.verbose)
    model = llama.load_model(options.model)
    prompt = llama.tokens(model, options.prompt)
    if not options.pace >= MIN_PACE:
        raise DriverError(MIN_PACE_MESSAGE)
    # Limit of the library's default context.
    n = min(options.tokens, _CONTEXT - len(prompt))
    if options.tokens < 1:
        raise DriverError("at least one token is required")
    if n < 1:
        raise DriverError(
            f"the prompt has {len(prompt)} tokens, more than the context of {_CONTEXT}"
        )
    if options.echo:
        sys.stdout.write(options.prompt)
    runs = [Run(llama, model, options.threads) for _ in range(options.contexts)]
    others = [
        threading.Thread(target=run.generate, args=(prompt, n, False, options.pace))
        for run in runs[1:]
    ]
    for thread in others:
        thread.start()
    runs[0].generate(prompt, n, show=True, pace=options.pace)
    if options.timing and runs[0].eval_s:
        n_timed = len(runs[0].steps) - 1
        # As llama.cpp's own programs say it.
        sys.stderr.write(
            f"eval time = {runs[0].eval_s * 1000:.2f} ms / {n_timed} runs "
            f"({n_timed / runs[0].eval_s:.2f} tokens per second)\n"
        )
    for thread in others:
        thread.join()
    sys.stdout.write("\n")
    sys.stdout.flush()
    if options.facts:
        facts = {"prompt": prompt, "steps": [run.steps for run in runs]}
        files.write(options.facts, json.dumps(facts).encode())
    for each in runs:
        each.free()
    llama.free_model(model)


def parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    root = argparse.ArgumentParser(
        prog="python -m ggscope_capture.driver",
        description="Run an unmodified llama.cpp, given as a folder of libraries.",
    )
    root.add_argument(
        "--libs",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where libllama lies, or the library itself",
    )
    root.add_argument("-m", "--model", type=Path, required=True)
    root.add_argument("-p", "--prompt", default="once upon a time")
    root.add_argument(
        "-n", "--tokens", type=int, default=32, help="number of tokens to generate"
    )
    root.add_argument("-t", "--threads", type=int, default=1)
    root.add_argument(
        "--contexts",
        type=int,
        default=1,
        help="number of concurrent contexts, each with the prompt",
    )
    root.add_argument(
        "--pace",
        type=float,
        default=math.inf,
        metavar="N",
        help="limit generation to N tokens per second",
    )
    root.add_argument("--echo", action="store_true", help="print the prompt first")
    root.add_argument(
        "--timing", action="store_true", help="print tokens per second on stderr"
    )
    root.add_argument(
        "--facts",
        type=Path,
        metavar="FILE",
        help="write the tokens of each decode as JSON",
    )
    root.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="let llama.cpp write its log to stderr",
    )
    return root  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit code."""
    try:
        run(parser().parse_args(arguments))
    except DriverError as error:
        sys.stderr.write(f"ggscope-capture: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
