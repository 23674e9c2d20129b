"""Info.plist of the application: its name, its documents, its types of files."""

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def _constant(file: str, name: str) -> str:
    text = (_ROOT / "app" / "ggscope" / file).read_text("utf-8")
    match = re.search(rf'^{name} = "(.+)"', text, re.MULTILINE)
    assert match is not None, name
    return match[1]


APPLICATION_ID = _constant("assets.py", "APPLICATION_ID")
VERSION = _constant("__init__.py", "__version__")
TRACE = f"{APPLICATION_ID}.trace"
"""The type of .ggmlviz files, which is exported: this program knows it best."""
GGUF = "org.ggml.gguf"
"""The type of models, which is imported: it belongs to others."""
MINIMUM = "13.0"
"""macOS that the wheels of Qt 6.11 ask for."""


def plist() -> dict[str, object]:
    """Return Info.plist; PyInstaller adds the name of the program."""
    return {
        "CFBundleName": "ggscope",
        "CFBundleDisplayName": "ggscope",
        "CFBundleIdentifier": APPLICATION_ID,
        "CFBundleShortVersionString": VERSION,
        "CFBundleVersion": VERSION,
        "CFBundlePackageType": "APPL",
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSMinimumSystemVersion": MINIMUM,
        "NSHighResolutionCapable": True,
        "NSRequiresAquaSystemAppearance": False,
        "NSHumanReadableCopyright": "MIT licence",
        "UTExportedTypeDeclarations": [
            _type(TRACE, "ggml-viz trace", ["ggmlviz"], "application/x-ggmlviz")
        ],
        "UTImportedTypeDeclarations": [
            _type(GGUF, "GGUF model", ["gguf"], "application/x-gguf")
        ],
        "CFBundleDocumentTypes": [
            _documents("ggml-viz trace", [TRACE], "Owner"),
            _documents("GGUF model", [GGUF], "Alternate"),
            # Offered by "Open With", never taken from the program that has them.
            _documents(
                "Trace", ["public.json", "public.data"], "Alternate",
                ["json", "jsonl", "bin", "pftrace", "perfetto-trace"],
            ),
            _documents("Experiment", ["public.folder"], "Alternate"),
        ],
    }  # fmt: skip


def _type(
    identifier: str, name: str, suffixes: list[str], mime: str
) -> dict[str, object]:
    return {
        "UTTypeIdentifier": identifier,
        "UTTypeDescription": name,
        "UTTypeConformsTo": ["public.data"],
        "UTTypeTagSpecification": {
            "public.filename-extension": suffixes,
            "public.mime-type": [mime],
        },
    }


def _documents(
    name: str, types: list[str], rank: str, suffixes: list[str] | None = None
) -> dict[str, object]:
    entries: dict[str, object] = {
        "CFBundleTypeName": name,
        "CFBundleTypeRole": "Viewer",
        "LSHandlerRank": rank,
        "LSItemContentTypes": types,
    }
    if suffixes:
        entries["CFBundleTypeExtensions"] = suffixes
    return entries
