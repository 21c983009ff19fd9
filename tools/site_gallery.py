"""How the gallery's examples are run and shown: their order, figures and threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The order of the gallery; examples that are not named here come last.
ORDER = (
    *("confusion", "learning", "rocket", "compare", "learning_curve"),  # fit and compare
    *("irregular_times", "missing_values", "prefixes", "augmentation", "embeddings"),  # data
    *("relevance", "attention", "importance", "calibration"),  # what a model has learned
    *("encodings", "order", "encoding_change", "own_encoding"),  # encodings
)


class InOrder:
    """The key by which sphinx-gallery sorts the files of a folder."""

    def __init__(self, folder: str):
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).stem.removeprefix("plot_")
        return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block of an example has made; return their reStructuredText.

    Sphinx-gallery's own function finds those of pyplot alone. The functions of `tsformer.plots`
    return figures that pyplot does not know.
    """
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    done = block_vars.setdefault("shown", set())
    saved = []
    for value in list(block_vars["example_globals"].values()):
        if isinstance(value, Figure) and id(value) not in done:
            done.add(id(value))
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=100)
            saved.append(path)
    words = Path(block_vars["src_file"]).stem.removeprefix("plot_").replace("_", " ")
    return str(figure_rst(saved, gallery_conf["src_dir"], words))


def one_thread(gallery_conf: dict[str, Any], fname: str) -> None:
    """Compute with one thread: models this small lose time with more."""
    import torch

    torch.set_num_threads(1)
