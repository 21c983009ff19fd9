"""What all figures share: an empty figure, and one colour per encoding."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from tsformer._optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ENCODING_COLORS", "HEAD_COLORS", "encoding_color", "new_figure"]

#: The first six are Okabe and Ito's, which colour-blind readers can distinguish, and the control is
#: grey. There are more encodings than distinguishable colours, so figures also name what they show.
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
#: Colours of the first heads, in order.
HEAD_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")


def encoding_color(name: str) -> str:
    """Return the encoding's colour, ``"#RRGGBB"``, the same in every figure and in MLflow.

    An encoding without a colour of its own, or a sum, is assigned one by a hash of its name. A
    variant of a study, as in ``"rope, stem=conv"``, has the colour of its encoding.
    """
    name = name.partition(",")[0]
    colors = list(ENCODING_COLORS.values())
    return ENCODING_COLORS.get(name, colors[zlib.crc32(name.encode()) % len(colors)])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; width and height are in hundreds of pixels."""
    module = require("matplotlib.figure", extra="plots", purpose="drawing a figure")
    figure: Figure = module.Figure(figsize=(width, height), dpi=100, layout="constrained")
    return figure
