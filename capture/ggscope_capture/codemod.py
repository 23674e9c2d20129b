"""Source patch that makes a static build of llama.cpp traceable.

If ggml is linked statically into a program, or built with LTO, calls within it do not
go through the PLT. The patch makes some functions look up the tracer when the program
starts, and call it in their place. It needs no header and no change of the build;
without the tracer the functions behave as before, at the price of one test each.

A function is located by its definition, which begins at the start of a line and ends
with a brace. Missing ones are reported. Each addition stands between two marks, so that
it can be reverted without a copy of the old files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ggscope_capture import files
from ggscope_capture.regular_file import read_regular

REQUIRED = (
    "ggml_graph_compute",
    "ggml_cpu_extra_compute_forward",
    "ggml_barrier",
)
"""Without one of these no ops can be traced."""
OPTIONAL = (
    "ggml_compute_forward_rms_norm_mul_fused",
    "gguf_init_from_file",
    "gguf_init_from_file_ptr",
    "ggml_backend_sched_graph_compute_async",
    "ggml_backend_sched_alloc_graph",
    "ggml_backend_sched_synchronize",
    "ggml_backend_sched_reset",
    "ggml_backend_tensor_set",
    "ggml_backend_tensor_get",
    "ggml_backend_tensor_copy",
    "ggml_backend_cpu_buffer_from_ptr",
    "ggml_backend_dev_buffer_from_host_ptr",
    "ggml_backend_buft_alloc_buffer",
    "ggml_backend_buffer_free",
    "ggml_backend_buffer_set_usage",
    "llama_decode",
    "llama_encode",
    "llama_process",
    "llama_batch_ext_add",
    "llama_batch_ext_add_token",
    "llama_batch_ext_add_embd",
    "llama_batch_ext_add_seq",
    "llama_batch_ext_set_pos",
    "llama_batch_ext_set_output_embd",
    "llama_batch_ext_set_output_logits",
    "llama_batch_ext_clear",
    "llama_batch_ext_free",
    "llama_sampler_apply",
)
"""These add names of weights, buffers, and API calls between graphs."""
_CALLED = (
    "ggml_graph_n_nodes", "ggml_graph_node", "ggml_op_name", "ggml_type_name",
    "ggml_blck_size", "ggml_type_size", "ggml_nbytes", "ggml_version", "ggml_init",
    "ggml_free", "ggml_new_tensor_2d", "ggml_add", "ggml_view_1d", "ggml_set_name",
    "ggml_get_name", "ggml_get_data", "ggml_set_input", "ggml_get_tensor",
    "gguf_get_n_tensors", "gguf_get_tensor_name", "gguf_get_tensor_offset",
    "gguf_get_tensor_size", "gguf_get_tensor_type", "gguf_get_data_offset",
    "ggml_backend_buffer_name", "ggml_backend_buffer_get_base",
    "ggml_backend_buffer_get_size", "ggml_backend_buffer_get_usage",
    "ggml_backend_buffer_is_host",
)  # fmt: skip
"""Functions that the tracer calls; in a static build it cannot look them up."""
_BEGIN = "/* ggscope: begin; `ggscope-capture codemod --undo` takes this out */"
_END = "/* ggscope: end */"
_BLOCK = re.compile(re.escape(_BEGIN) + r".*?" + re.escape(_END) + r"\n", re.DOTALL)
_OWN = "ggscope_own_"
_ASKS = """#include <dlfcn.h>
#ifndef RTLD_DEFAULT
#define RTLD_DEFAULT ((void *) 0)
#endif
"""
_MAX_BYTES = 16 << 20


class CodemodError(Exception):
    """The checkout cannot be changed; the text says why."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a C function in a source file."""

    path: Path
    begin: int
    name_at: int
    end: int
    result: str
    parameters: str
    kind: str
    """"static " or nothing."""


@dataclass(frozen=True, slots=True)
class State:
    """The functions of a checkout that can be patched.

    `changed` are names that are already patched; `missing` those without a definition,
    each with whether it is required.
    """

    places: dict[str, Definition]
    changed: tuple[str, ...]
    missing: dict[str, bool]


def inspect(checkout: Path) -> State:
    """Return the state of a checkout; raises CodemodError if it is none."""
    if not (checkout / "ggml" / "include" / "ggml.h").is_file():
        raise CodemodError(
            f"{checkout} is not a llama.cpp checkout (no ggml/include/ggml.h)"
        )
    texts = dict(_sources(checkout))
    places: dict[str, Definition] = {}
    changed = []
    for name in (*REQUIRED, *OPTIONAL):
        if any(_OWN + name in text for text in texts.values()):
            changed.append(name)
            continue
        for path, text in texts.items():
            definition = _definition(path, text, name)
            if definition is not None:
                places[name] = definition
                break
    missing = {
        name: name in REQUIRED
        for name in (*REQUIRED, *OPTIONAL)
        if name not in places and name not in changed
    }
    return State(places, tuple(changed), missing)


def apply(checkout: Path) -> list[Path]:
    """Patch the checkout; return the changed files.

    Raises
    ------
    CodemodError
        If a function that is required is missing (none is changed then), or a file
        cannot be written.
    """
    state = inspect(checkout)
    required = [name for name, is_required in state.missing.items() if is_required]
    if required:
        raise CodemodError(
            f"{checkout} lacks {' and '.join(required)}; no file changed"
        )
    texts = dict(_sources(checkout))
    by_file: dict[Path, list[tuple[str, Definition]]] = {}
    for name, definition in state.places.items():
        by_file.setdefault(definition.path, []).append((name, definition))
    new = {}
    for path, definitions in by_file.items():
        text = texts[path]
        for name, definition in sorted(definitions, key=lambda each: -each[1].begin):
            text = _wrapped(text, name, definition)
        if any(name == "ggml_graph_compute" for name, _ in definitions):
            text = text.rstrip("\n") + "\n" + _registration(checkout)
        new[path] = text
    _write(new)
    return sorted(new)


def undo(checkout: Path) -> list[Path]:
    """Revert the patch; return the changed files.

    Raises
    ------
    CodemodError
        If it is no checkout, or a file cannot be written.
    """
    inspect(checkout)
    new = {}
    for path, text in _sources(checkout):
        plain = _BLOCK.sub("", text).replace(_OWN, "")
        if plain != text:
            new[path] = plain
    _write(new)
    return sorted(new)


def _write(texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        try:
            files.write(path, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise CodemodError(
                f"{path} cannot be written: {files.reason_of(error)}"
            ) from error


def _sources(checkout: Path) -> Iterator[tuple[Path, str]]:
    """Yield the sources that may hold one of the functions, and their texts."""
    ggml = checkout / "ggml" / "src"
    for folder in (ggml, ggml / "ggml-cpu", checkout / "src"):
        for path in sorted([*folder.glob("*.c"), *folder.glob("*.cpp")]):
            if path.is_file() and path.stat().st_size <= _MAX_BYTES:
                content = read_regular(path, follows_links=True)
                yield path, content.decode("utf-8", "surrogateescape")


def _definition(path: Path, text: str, name: str) -> Definition | None:
    """Return the definition of a function in a source text, or None."""
    at = text.find(f"{name}(")
    while at >= 0:
        definition = _definition_at(path, text, name, at)
        if definition is not None:
            return definition
        at = text.find(f"{name}(", at + 1)
    return None


def _definition_at(path: Path, text: str, name: str, at: int) -> Definition | None:
    begin = text.rfind("\n", 0, at) + 1
    result = text[begin:at].strip()
    # A definition begins at the beginning of its line, with what it returns.
    if not re.fullmatch(r"[A-Za-z_][\w\s:<>*]*", result) or result == "return":
        return None
    close = text.find(")", at)
    while close >= 0 and text.count("(", at, close + 1) > text.count(
        ")", at, close + 1
    ):
        close = text.find(")", close + 1)
    if close < 0 or not re.match(r"\)\s*\{", text[close:]):
        return None
    end = text.find("\n}", close)
    if end < 0:
        return None
    end = text.find("\n", end + 1) + 1 or len(text)
    parameters = " ".join(text[at + len(name) + 1 : close].split())
    kind = "static " if re.search(r"\bstatic\b", result) else ""
    result = re.sub(r"\b(static|inline|extern|GGML_API|LLAMA_API)\b", "", result)
    return Definition(path, begin, at, end, " ".join(result.split()), parameters, kind)


def _wrapped(text: str, name: str, definition: Definition) -> str:
    """Return a source text with one function patched."""
    own = f"{_OWN}{name}"
    names = [
        match[1]
        for part in _split_parameters(definition.parameters)
        if (match := re.search(r"(\w+)\s*(?:\[[^]]*\])?$", part)) and part != "void"
    ]
    arguments = ", ".join(names)
    takes, gives = definition.parameters or "void", definition.result
    goes = "" if gives == "void" else "return "
    before = f"{_BEGIN}\n{definition.kind}{gives} {own}({takes});\n{_END}\n"
    after = f"""{_BEGIN}
{_ASKS}static {gives} (*ggscope_in_{name})({takes});
{definition.kind}{gives} {name}({takes}) {{
    if (ggscope_in_{name}) {{
        {goes}ggscope_in_{name}({arguments});
    }} else {{
        {goes}{own}({arguments});
    }}
}}
__attribute__((constructor)) static void ggscope_ask_{name}(void) {{
    void * ask = dlsym(RTLD_DEFAULT, "ggscope_source");
    if (ask) {{
        ggscope_in_{name} = __extension__ ({gives} (*)({takes}))
            (__extension__ (void * (*)(const char *, void *)) ask)(
                "{name}", __extension__ (void *) {own});
    }}
}}
{_END}
"""
    return (
        text[: definition.begin] + before
        + text[definition.begin : definition.name_at] + _OWN
        + text[definition.name_at : definition.end] + after + text[definition.end :]
    )  # fmt: skip


def _split_parameters(parameters: str) -> list[str]:
    """Split parameters at commas outside of brackets."""
    parts, depth = [""], 0
    for character in parameters:
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _registration(checkout: Path) -> str:
    """Return the code that registers the functions that the tracer calls."""
    include = checkout / "ggml" / "include"
    headers = [
        name
        for name in ("ggml.h", "ggml-backend.h", "gguf.h")
        if (include / name).is_file()
    ]
    declared = "".join(
        read_regular(include / name, follows_links=True).decode("utf-8", "replace")
        for name in headers
    )
    known = [name for name in _CALLED if re.search(rf"\b{name}\s*\(", declared)]
    includes = "".join(f'#include "{name}"\n' for name in headers)
    notes = "".join(
        f'        tell("{name}", __extension__ (void *) {name});\n' for name in known
    )
    return f"""{_BEGIN}
{includes}{_ASKS}__attribute__((constructor)) static void ggscope_tell(void) {{
    void * (*tell)(const char *, void *) =
        __extension__ (void * (*)(const char *, void *))
            dlsym(RTLD_DEFAULT, "ggscope_source");
    if (tell) {{
{notes}    }}
}}
{_END}
"""
