"""What all pictures share: a new figure, and one colour for each encoding."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from tsformer._optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ENCODING_COLORS", "HEAD_COLORS", "encoding_color", "new_figure"]

#: The first six are Okabe and Ito's, told apart by colour-blind readers, and grey for the
#: control. So many colours as there are encodings cannot all be: pictures name what they show.
ENCODING_COLORS = {
    "fixed": "#E69F00",
    "learnable": "#56B4E9",
    "lspe": "#D55E00",
    "tape": "#009E73",
    "rope": "#0072B2",
    "erpe": "#CC79A7",
    "none": "#7F7F7F",
    "alibi": "#999933",
    "tape+erpe": "#882255",
    "fourier": "#332288",
    "time2vec": "#88CCEE",
    "cape": "#117733",
    "conv": "#44AA99",
    "wavelet": "#AA4499",
    "xpos": "#6699CC",
    "tupe": "#661100",
    "sine_spe": "#DDCC77",
    "conv_spe": "#AA7744",
    "shaw": "#222255",
    "t5": "#997700",
    "kerple": "#CC6677",
    "fire": "#EE3377",
    "gaussian": "#BBCC33",
}
#: The first heads, in their order.
HEAD_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")


def encoding_color(name: str) -> str:
    """Return the encoding's colour, ``"#RRGGBB"``, the same in every picture and in MLflow.

    An encoding without one of its own, or a sum, gets one of them by its name. A variant of a
    study, as in ``"rope, stem=conv"``, has its encoding's.
    """
    name = name.partition(",")[0]
    colors = list(ENCODING_COLORS.values())
    return ENCODING_COLORS.get(name, colors[zlib.crc32(name.encode()) % len(colors)])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many hundred pixels."""
    module = require("matplotlib.figure", extra="plots", purpose="drawing a figure")
    figure: Figure = module.Figure(figsize=(width, height), dpi=100, layout="constrained")
    return figure
