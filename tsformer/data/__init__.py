"""Time-series data: containers, files, archives, preprocessing. Knows no model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> the module that holds it, resolved on first use.
_PUBLIC = {
    "DatasetError": "tsformer.data.tsfile",
    "LayoutWarning": "tsformer.data.layout",
    "from_long": "tsformer.data.long",
    "list_datasets": "tsformer.data.archive",
    "load_dataset": "tsformer.data.archive",
    "make_order_task": "tsformer.data.synthetic",
    "make_window_task": "tsformer.data.synthetic",
    "read_ts": "tsformer.data.tsfile",
    "to_long": "tsformer.data.long",
    "write_ts": "tsformer.data.tsfile",
}

__all__ = [
    "DatasetError",
    "LayoutWarning",
    "from_long",
    "list_datasets",
    "load_dataset",
    "make_order_task",
    "make_window_task",
    "read_ts",
    "to_long",
    "write_ts",
]

if TYPE_CHECKING:
    from tsformer.data.archive import list_datasets, load_dataset
    from tsformer.data.layout import LayoutWarning
    from tsformer.data.long import from_long, to_long
    from tsformer.data.synthetic import make_order_task, make_window_task
    from tsformer.data.tsfile import DatasetError, read_ts, write_ts


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tsformer.data' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
