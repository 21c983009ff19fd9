"""What all figures share: panels, text that fits, axes of scores, and one colour per encoding."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tsformer._optional import require
from tsformer.data.layout import check_ids

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colour of each encoding, by name. The first six are Okabe and Ito's, which colour-blind
#: readers can distinguish; the control is grey. The others are similar, so figures print names too.
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
    "cope": "#004488",
    "dape": "#AAAA00",
    "fope": "#EE7733",
    "learnable_rope": "#225555",
    "pope": "#663333",
}
#: Colours of sums, of encodings of one's own and of other methods.
OTHER_COLORS = (
    *("#1F77B4", "#FF7F0E", "#2CA02C", "#D62728", "#9467BD", "#8C564B", "#E377C2", "#BCBD22"),
    *("#17BECF", "#393B79", "#637939", "#8C6D31", "#843C39", "#7B4173", "#5254A3", "#8CA252"),
    *("#BD9E39", "#AD494A", "#A55194", "#6B6ECF", "#B5CF6B", "#E7BA52", "#D6616B", "#CE6DBD"),
)
#: Colours of the first heads, in order.
HEAD_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")

#: Each method also has its own marker, since colours alone are not distinct enough.
MARKERS = "osD^vPX<>*ph"


def encoding_colors(names: Iterable[str]) -> dict[str, str]:
    """Return the colour of each encoding or method of a study, ``"#RRGGBB"``, none twice.

    An encoding of this package has the same colour everywhere. A sum, an encoding of your own or
    another method has one by a hash of its name, or the next free one. A variant, as in
    ``"rope, stem=conv"``, has the colour of its encoding.

    Examples
    --------
    >>> encoding_colors(["none", "rope", "mine.Log"])
    {'none': '#7F7F7F', 'rope': '#0072B2', 'mine.Log': '#BD9E39'}
    """
    encodings = {name: name.partition(",")[0] for name in names}
    colors = {name: ENCODING_COLORS[name] for name in encodings.values() if name in ENCODING_COLORS}
    spare = [color for color in ENCODING_COLORS.values() if color not in colors.values()]
    for name in sorted({*encodings.values()} - {*colors}):
        first = zlib.crc32(name.encode()) % len(OTHER_COLORS)
        choice = (*OTHER_COLORS[first:], *OTHER_COLORS[:first], *spare)
        taken = colors.values()
        colors[name] = next((each for each in choice if each not in taken), choice[0])
    return {name: colors[encoding] for name, encoding in encodings.items()}


def encoding_color(name: str) -> str:
    """Return the colour of an encoding on its own, as `encoding_colors` does."""
    return encoding_colors([name])[name]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; width and height are in hundreds of pixels."""
    module = require("matplotlib.figure", extra="plots", purpose="drawing a figure")
    return module.Figure(figsize=(width, height), dpi=100, layout="constrained")


def figure_of(ax: Axes) -> Figure:
    """Return the figure that a panel is in, also if it is in a part of that figure."""
    return ax.figure.figure


def one_panel(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the one panel of a new figure of this size."""
    return new_figure(width, height).subplots() if ax is None else ax


class Panels:
    """Panels of a figure: given by the caller, or created in rows of one height."""

    def __init__(
        self,
        axes: Axes | Sequence[Axes] | None,
        n: int,
        of: str,
        *,
        n_columns: int,
        panel: tuple[float, float],
        around: tuple[float, float] = (0.0, 0.0),
        **shared: Any,
    ):
        self.own = axes is None
        if axes is not None:
            self.axes: list[Axes] = list(np.ravel(np.asarray([axes], dtype=object)))
            if len(self.axes) != n:
                raise ValueError(
                    f"axes must have one panel for each {of}, {n} in all; got {len(self.axes)}: "
                    f"make them with plt.subplots(1, {n})"
                )
            self.figure = figure_of(self.axes[0])
            return
        n_columns = min(n_columns, n)
        n_rows = -(-n // n_columns)
        width, height = panel
        self.figure = new_figure(n_columns * width + around[0], n_rows * height + around[1])
        grid = self.figure.subplots(n_rows, n_columns, squeeze=False, **shared)
        for place in range(n, grid.size):
            grid.flat[place].set_visible(False)
            grid.flat[place - n_columns].tick_params(labelbottom=True)  # the last of its column
        self.axes = list(grid.flat[:n])

    def colorbar(self, image: Any, label: str) -> None:
        """Add a colour bar beside the panels of a new figure."""
        if self.own:
            self.figure.colorbar(image, ax=self.axes, aspect=30, pad=0.02, label=label)

    def label(self, x: str, y: str = "") -> None:
        """Label a new figure once, or each of the caller's panels."""
        if self.own:
            width, height = self.figure.get_size_inches()
            self.figure.supxlabel(wrapped(x, 0.95 * width, 10), fontsize=10)
            if y:
                self.figure.supylabel(wrapped(y, 0.95 * height, 10), fontsize=10)
            return
        for ax in self.axes:
            ax.set_xlabel(x)
            ax.set_ylabel(y)


def end_score_axis(ax: Axes, scores: Iterable[float], axis: Literal["x", "y"]) -> None:
    """Let an axis of scores that are at most 1 end at 1, and begin at no less than 0."""
    known = np.asarray(list(scores), dtype=float)
    known = known[np.isfinite(known)]
    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    if known.size:
        high = min(high, 1.0) if known.max() <= 1 else high
        low = max(low, 0.0) if known.min() >= 0 else low
    (ax.set_xlim if axis == "x" else ax.set_ylim)(low, high)


def fewer_ticks(ax: Axes, n: int = 4) -> None:
    """Let the x axis have at most `n` intervals, whose numbers do not run into each other."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="drawing a figure")
    ax.xaxis.set_major_locator(ticker.MaxNLocator(n, steps=(1, 2, 2.5, 5, 10)))


def scale_by_powers(ax: Axes, values: pd.Series[float]) -> None:
    """Make x logarithmic with few plain numbers: matplotlib's own labels overlap."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="drawing a figure")
    low, high = values.min(), values.max()
    ax.set_xscale("log")
    ax.set_xlim(low / 1.4, 1.4 * high)
    least = 2 if high > 100 * low else 3
    for steps in ((1,), (1, 3), (1, 2, 5)):
        numbers = [step * 10**power for power in range(-6, 12) for step in steps]
        ticks = [number for number in numbers if low / 1.2 <= number <= 1.2 * high]
        if len(ticks) >= least:
            break
    if len(ticks) < 2:
        ticks = sorted({low, high})
    ax.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    ax.xaxis.set_minor_locator(ticker.NullLocator())


def text_width(text: str, fontsize: float) -> float:
    """Return the width of a line of text in inches."""
    path = require("matplotlib.textpath", extra="plots", purpose="drawing a figure")
    fonts = require("matplotlib.font_manager", extra="plots", purpose="drawing a figure")
    font = fonts.FontProperties(size=fontsize)
    return float(path.text_to_path.get_text_width_height_descent(text, font, False)[0]) / 72


def widest(names: Iterable[object], fontsize: float) -> float:
    """Return the width in inches of the longest line, or 0."""
    return max((text_width(str(name), fontsize) for name in names), default=0.0)


def wrapped(text: str, width: float, fontsize: float) -> str:
    """Return a text in lines no wider than `width` inches, broken at blanks, `+` and `_`."""
    lines = [""]
    for word in re.findall(r"\n|[^ +_\n]*[ +_]|[^ +_\n]+", text):
        if word == "\n":
            lines.append("")
            continue
        for part in word if text_width(word.rstrip(), fontsize) > width else [word]:
            if lines[-1] and text_width((lines[-1] + part).rstrip(), fontsize) > width:
                lines.append("")
            lines[-1] += part
    return "\n".join(map(str.rstrip, lines))


def shortened(name: object, most: int = 48) -> str:
    """Shorten a name to `most` characters by cutting its middle."""
    text = str(name)
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end].rstrip()}…{text[-end:]}"


def is_estimator(thing: object, needs: str) -> bool:
    """Tell an estimator from arrays; raise TypeError without the attribute `needs`."""
    if not (hasattr(thing, "fit") and hasattr(thing, "get_params")):
        return False
    if isinstance(thing, type):
        raise TypeError(f"got the class {thing.__name__}: construct it and call fit first")
    if not hasattr(thing, needs):
        check_is_fitted(thing)
        raise TypeError(
            f"{type(thing).__name__} has no {needs}, which this figure needs: pass the classifier "
            "inside a pipeline or a search, such as best_estimator_"
        )
    return True


def labels_of(X: Any, y: Any) -> Any:
    """Return the labels that a figure of a classifier needs."""
    if y is None:
        raise TypeError("y is missing: pass (classifier, X, y)")
    check_ids(X, y, "y")
    labels = np.asarray(y)
    if labels.ndim > 1 and labels.shape[1] > 1:
        raise ValueError(f"this figure needs one label per series; y has the shape {labels.shape}")
    return labels


def of_times(times: Any) -> dict[str, Any]:
    """Return times as a keyword, which estimators of other packages lack."""
    return {} if times is None else {"times": times}
