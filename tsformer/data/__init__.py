"""Time-series data: containers, files, archives, preprocessing. Knows no model."""

from tsformer.data.archive import list_datasets, load_dataset
from tsformer.data.layout import LayoutWarning
from tsformer.data.long import from_long, to_long
from tsformer.data.synthetic import make_order_task, make_window_task
from tsformer.data.tsfile import DatasetError, read_ts, write_ts
from tsformer.data.windows import Windows, windows

__all__ = [
    "DatasetError",
    "LayoutWarning",
    "Windows",
    "from_long",
    "list_datasets",
    "load_dataset",
    "make_order_task",
    "make_window_task",
    "read_ts",
    "to_long",
    "windows",
    "write_ts",
]
