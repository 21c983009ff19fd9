"""What all figures share: panels, text that fits, axes, and one colour per encoding."""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tsformer._optional import require
from tsformer.data.layout import check_ids

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: The colour of each encoding, by name. The first six are Okabe and Ito's, which colour-blind
#: readers can distinguish; the control is grey. The others are similar, so figures print names too.
ENCODING_COLORS = {
    "fixed": "#E69F00", "learnable": "#56B4E9", "lspe": "#D55E00",
    "tape": "#009E73", "rope": "#0072B2", "erpe": "#CC79A7",
    "none": "#7F7F7F", "alibi": "#999933", "tape+erpe": "#882255",
    "fourier": "#332288", "time2vec": "#88CCEE", "cape": "#117733",
    "conv": "#44AA99", "wavelet": "#AA4499", "xpos": "#6699CC",
    "tupe": "#661100", "sine_spe": "#DDCC77", "conv_spe": "#AA7744",
    "shaw": "#222255", "t5": "#997700", "kerple": "#CC6677",
    "fire": "#EE3377", "gaussian": "#BBCC33", "cope": "#004488",
    "dape": "#AAAA00", "fope": "#EE7733", "learnable_rope": "#225555",
    "pope": "#663333",
}  # fmt: skip
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
#: The look of a legend inside a panel.
LEGEND: Any = {"fontsize": 8, "framealpha": 0.8, "edgecolor": "none"}


def encoding_colors(names: Iterable[str]) -> dict[str, str]:
    """Return the colour of each encoding or method of a study, ``"#RRGGBB"``, none twice.

    An encoding of this package has one colour everywhere, and other names the next free one from
    a hash on. A variant, as in ``"rope, stem=conv"``, has the colour of its encoding.

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
        colors[name] = next((c for c in choice if c not in colors.values()), choice[0])
    return {name: colors[encoding] for name, encoding in encodings.items()}


def encoding_color(name: str) -> str:
    """Return the colour of an encoding on its own, as `encoding_colors` does."""
    return encoding_colors([name])[name]


def library(name: str) -> Any:
    """Import a module of matplotlib."""
    return require(f"matplotlib.{name}", extra="plots", purpose="drawing a figure")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; width and height are in hundreds of pixels."""
    figure: Figure = library("figure").Figure((width, height), dpi=100, layout="constrained")
    return figure


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
        n_columns: int,
        panel: tuple[float, float],
        around: tuple[float, float] = (0.0, 0.0),
        **shared: Any,
    ):
        self.own, grid = axes is None, np.asarray(axes, dtype=object)
        if self.own:
            n_columns = min(n_columns, n)
            n_rows = -(-n // n_columns)
            width, height = n_columns * panel[0] + around[0], n_rows * panel[1] + around[1]
            grid = new_figure(width, height).subplots(n_rows, n_columns, squeeze=False, **shared)
            for unused in range(n, grid.size):
                grid.flat[unused].set_visible(False)
                grid.flat[unused - n_columns].tick_params(labelbottom=True)
        elif grid.size != n:
            raise ValueError(
                f"axes must have one panel for each {of}, {n} in all; got {grid.size}: "
                f"make them with plt.subplots(1, {n})"
            )
        self.axes: list[Axes] = list(grid.flat)[:n]
        self.figure = figure_of(self.axes[0])

    def colorbar(self, image: Any, label: str) -> None:
        """Add a colour bar beside the panels of a new figure."""
        if self.own:
            self.figure.colorbar(image, ax=self.axes, aspect=30, pad=0.02, label=label)

    def label(self, x: str, y: str = "") -> None:
        """Label a new figure once, or each of the caller's panels."""
        if not self.own:
            for ax in self.axes:
                ax.set(xlabel=x, ylabel=y)
            return
        width, height = self.figure.get_size_inches()
        self.figure.supxlabel(wrapped(x, 0.95 * width, 10), fontsize=10)
        if y:
            self.figure.supylabel(wrapped(y, 0.95 * height, 10), fontsize=10)


def end_score_axis(ax: Axes, scores: Iterable[float], axis: Literal["x", "y"]) -> None:
    """Let an axis of scores that are at most 1 end at 1, and begin at no less than 0."""
    values = np.asarray(list(scores), dtype=float)
    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    low = low if (values < 0).any() else max(low, 0.0)
    high = high if (values > 1).any() else min(high, 1.0)
    (ax.set_xlim if axis == "x" else ax.set_ylim)(low, high)


def fewer_ticks(ax: Axes, n: int = 4) -> None:
    """Let the x axis have at most `n` intervals, whose numbers do not run into each other."""
    ax.xaxis.set_major_locator(library("ticker").MaxNLocator(n, steps=(1, 2, 2.5, 5, 10)))


def scale_by_powers(ax: Axes, values: pd.Series[float]) -> None:
    """Make x logarithmic with few plain numbers: matplotlib's own labels overlap."""
    low, high = values.min(), values.max()
    ticks = sorted({float(f"{tick:.0e}") for tick in np.geomspace(low, high, 3)})
    ticks = ticks if len(ticks) > 1 else sorted({low, high})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    ax.set_xlim(low / 1.5, 1.5 * high)
    ax.xaxis.set_minor_locator(library("ticker").NullLocator())


def place_times(axis: Axis, times: pd.Index) -> tuple[npt.NDArray[np.float64], str]:
    """Return times as numbers of an axis, and its label; dates get ticks by their local clock."""
    times = times.to_timestamp() if isinstance(times, pd.PeriodIndex) else times
    if isinstance(times, pd.DatetimeIndex):
        dates = library("dates")
        locator = dates.AutoDateLocator(times.tz, minticks=2, maxticks=5)
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator, times.tz))
        return dates.date2num(times.values), "time"  # in UTC
    if isinstance(times, pd.TimedeltaIndex):
        return times.total_seconds().to_numpy(), "time (seconds)"
    return np.asarray(times, dtype=float), "time"


def text_width(text: str, fontsize: float) -> float:
    """Return the width of a line of text in inches."""
    font = library("font_manager").FontProperties(size=fontsize)
    size = library("textpath").text_to_path.get_text_width_height_descent(text, font, False)
    return float(size[0]) / 72


def widest(names: Iterable[object], fontsize: float) -> float:
    """Return the width in inches of the longest line, or 0."""
    return max((text_width(str(name), fontsize) for name in names), default=0.0)


def wrapped(text: str, width: float, fontsize: float) -> str:
    """Return a text in lines of about `width` inches."""
    n = max(int(width / text_width("n", fontsize)), 1)
    return "\n".join(textwrap.fill(line, n) for line in text.splitlines())


def abbreviated(name: object, most: int = 48) -> str:
    """Shorten a name to `most` characters by cutting its middle."""
    text, end = str(name), (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - end].rstrip()}…{text[-end:]}"


def is_estimator(thing: object, needs: str) -> bool:
    """Tell a fitted estimator from arrays; raise TypeError without the attribute `needs`."""
    if not (hasattr(thing, "fit") and hasattr(thing, "get_params")):
        return False
    if isinstance(thing, type) or not hasattr(thing, needs):
        check_is_fitted(thing)
        raise TypeError(
            f"{type(thing).__name__} has no {needs}, which this figure needs: pass the classifier "
            "inside a pipeline or a search, such as best_estimator_"
        )
    return True


def tested(
    classifier: Any, X: Any, y: Any, method: str, times: Any
) -> tuple[npt.NDArray[Any], Any, Any]:
    """Return true labels, the answer of a classifier's `method`, and its classes."""
    if y is None:
        raise TypeError("y is missing: pass (classifier, X, y)")
    check_ids(X, y, "y")
    labels = np.asarray(y)
    if labels.ndim > 1 and labels.shape[1] > 1:
        raise ValueError(f"this figure needs one label per series; y has the shape {labels.shape}")
    return labels, getattr(classifier, method)(X, **of_times(times)), classifier.classes_


def of_times(times: Any) -> dict[str, Any]:
    """Return times as a keyword, which estimators of other packages lack."""
    return {} if times is None else {"times": times}
