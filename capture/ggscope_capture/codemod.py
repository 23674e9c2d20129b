"""Makes a llama.cpp checkout traceable whose build would leave no way in.

Where ggml is linked into a program, or is optimised across its files, calls within it
go through no slots. This changes its sources so that some functions ask, when the
program starts, whether the tracer is there, and call it in their place. Nothing else is
needed: no header, no change of the build; without the tracer the functions do what they
did, at the price of one test each.

A function is found by what it is: its definition, at the beginning of a line, with the
brace that ends it. What is not found is named. Each addition stands between two marks,
so that it can be taken out again without a copy of the old files.
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
"""Without one of these no op of a thread can be told."""
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
"""These add names of weights, buffers and what the program does between graphs."""
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
"""What the tracer itself calls; it cannot look for these in a static build."""
_BEGIN = "/* ggscope: begin; `ggscope-capture codemod --undo` takes this out */"
_END = "/* ggscope: end */"
_BLOCK = re.compile(re.escape(_BEGIN) + r".*?" + re.escape(_END) + r"\n", re.DOTALL)
_OWN = "ggscope_own_"
_ASKS = """#include <dlfcn.h>
#ifndef RTLD_DEFAULT
#define RTLD_DEFAULT ((void *) 0)
#endif
"""
_MOST_BYTES = 16 << 20


class CodemodError(Exception):
    """The checkout cannot be changed; the text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """A definition: where it is, and what it is made of."""

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
    """What a checkout has of the functions that matter.

    `changed` are names that are traced already; `missing` those without a definition,
    each with whether it is required.
    """

    found: dict[str, Found]
    changed: tuple[str, ...]
    missing: dict[str, bool]


def look(checkout: Path) -> State:
    """Tell what is there; raises CodemodError where this is no checkout."""
    if not (checkout / "ggml" / "include" / "ggml.h").is_file():
        raise CodemodError(
            f"{checkout} is no checkout of llama.cpp: there is no ggml/include/ggml.h"
        )
    texts = dict(_sources(checkout))
    found: dict[str, Found] = {}
    changed = []
    for name in (*REQUIRED, *OPTIONAL):
        if any(_OWN + name in text for text in texts.values()):
            changed.append(name)
            continue
        for path, text in texts.items():
            definition = _definition(path, text, name)
            if definition is not None:
                found[name] = definition
                break
    missing = {
        name: name in REQUIRED
        for name in (*REQUIRED, *OPTIONAL)
        if name not in found and name not in changed
    }
    return State(found, tuple(changed), missing)


def apply(checkout: Path) -> list[Path]:
    """Change the checkout; return the files that are different now.

    Raises
    ------
    CodemodError
        If a function that is required is missing (none is changed then), or a file
        cannot be written.
    """
    state = look(checkout)
    required = [name for name, is_required in state.missing.items() if is_required]
    if required:
        raise CodemodError(
            f"{checkout} has no {' and no '.join(required)}; nothing was changed"
        )
    texts = dict(_sources(checkout))
    by_file: dict[Path, list[tuple[str, Found]]] = {}
    for name, definition in state.found.items():
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
    """Take everything out again; return the files that were changed.

    Raises
    ------
    CodemodError
        If it is no checkout, or a file cannot be written.
    """
    look(checkout)
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
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                content = read_regular(path, follows_links=True)
                yield path, content.decode("utf-8", "surrogateescape")


def _definition(path: Path, text: str, name: str) -> Found | None:
    """Return where a function is defined in a text."""
    at = text.find(f"{name}(")
    while at >= 0:
        definition = _definition_at(path, text, name, at)
        if definition is not None:
            return definition
        at = text.find(f"{name}(", at + 1)
    return None


def _definition_at(path: Path, text: str, name: str, at: int) -> Found | None:
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
    return Found(path, begin, at, end, " ".join(result.split()), parameters, kind)


def _wrapped(text: str, name: str, found: Found) -> str:
    """Return a text where one function asks for the tracer."""
    own = f"{_OWN}{name}"
    names = [
        match[1]
        for part in _parted(found.parameters)
        if (match := re.search(r"(\w+)\s*(?:\[[^]]*\])?$", part)) and part != "void"
    ]
    arguments = ", ".join(names)
    takes, gives = found.parameters or "void", found.result
    goes = "" if gives == "void" else "return "
    before = f"{_BEGIN}\n{found.kind}{gives} {own}({takes});\n{_END}\n"
    after = f"""{_BEGIN}
{_ASKS}static {gives} (*ggscope_in_{name})({takes});
{found.kind}{gives} {name}({takes}) {{
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
        text[: found.begin] + before + text[found.begin : found.name_at] + _OWN
        + text[found.name_at : found.end] + after + text[found.end :]
    )  # fmt: skip


def _parted(parameters: str) -> list[str]:
    """Return parameters one by one; commas within brackets part nothing."""
    parts, depth = [""], 0
    for character in parameters:
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _registration(checkout: Path) -> str:
    """Return what tells the tracer of the functions that it calls."""
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
    told = "".join(
        f'        tell("{name}", __extension__ (void *) {name});\n' for name in known
    )
    return f"""{_BEGIN}
{includes}{_ASKS}__attribute__((constructor)) static void ggscope_tell(void) {{
    void * (*tell)(const char *, void *) =
        __extension__ (void * (*)(const char *, void *))
            dlsym(RTLD_DEFAULT, "ggscope_source");
    if (tell) {{
{told}    }}
}}
{_END}
"""
