"""The file filters of the open dialog, from the readers that there are."""

from PySide6.QtCore import QCoreApplication


def name_filters() -> str:
    """Return the filters as QFileDialog wants them; all files where none is known."""
    every = QCoreApplication.translate("OpenFilters", "All files (*)")
    try:
        from ggscope.readers.registry import readers

        infos = [reader.info for reader in readers(waits=False)]
    except Exception:  # noqa: BLE001 - a reader's fault must not stop the dialog
        return every
    suffixes = sorted({s for info in infos for s in info.suffixes})
    if not suffixes:
        return every
    everything = " ".join(f"*{s}" for s in suffixes)
    traces = QCoreApplication.translate("OpenFilters", "Traces")
    single = [
        f"{info.title} ({' '.join('*' + s for s in info.suffixes)})"
        for info in infos
        if info.suffixes
    ]
    return ";;".join([f"{traces} ({everything})", *single, every])


__all__ = ["name_filters"]
