"""Pictures: that they show the right numbers, that one can read them, and that they draw alone."""

import copy

import numpy as np
import pytest
import torch
from marks import ONE_OF_EACH_HOOK, exhaustive_except
from picture_checks import SIZES, assert_legible, assert_readable, images, panels, titles

from tsformer.baselines import BASELINES
from tsformer.encodings import names, resolve
from tsformer.plots import (
    ENCODING_COLORS,
    encoding_color,
    encoding_colors,
    plot_encoding,
    plot_encoding_change,
)


@pytest.mark.parametrize(
    "name", exhaustive_except([*names(), "tape+erpe"], ("fixed", "rope", "none"))
)
def test_every_encoding_is_legible(name: str) -> None:
    assert_legible(plot_encoding(name, 96, d_model=32, n_heads=4))


def test_a_long_name_is_not_cut_off() -> None:
    name = "an_encoding_of_my_own_with_a_long_name+another_one_that_is_as_long+erpe+learnable"
    figure = plot_encoding("learnable", 12, **SIZES, name=name)
    assert_legible(figure)
    assert figure.get_suptitle().replace("\n", "") == f"Positional encoding {name}"


@pytest.mark.parametrize("name", ONE_OF_EACH_HOOK)
def test_one_position_can_be_drawn(name: str) -> None:
    for ax in panels(plot_encoding(name, 1, **SIZES)):
        lines = [line for line in ax.lines if line.get_label().endswith(("head", "head 0"))]
        assert ax.images or lines[0].get_marker() == "o"


def test_scores_are_those_that_attention_sees() -> None:
    """Heads apart where they differ, queries against keys and not themselves, widened or not."""
    encoding = resolve("tupe", max_len=9, **SIZES)
    ones, t = torch.ones(1, 2, 9, 4), torch.arange(9.0)[None]
    with torch.no_grad():
        q, k = encoding.rotate(ones, ones, t)
    figure = plot_encoding(encoding, 9, **SIZES)
    assert titles(figure) == ["tupe: queries and keys of ones (widened from 4 features to 8)"]
    values, scores = images(figure)
    np.testing.assert_allclose(values, q[0, 0], atol=1e-6)
    np.testing.assert_allclose(scores, q[0, 0] @ k[0, 0].T / 4, atol=1e-6)
    curves = {line.get_label(): line.get_ydata() for line in panels(figure)[-1].lines}
    for head in range(2):
        matrix = (q[0, head] @ k[0, head].T / 4).numpy()
        ahead = [matrix.diagonal(gap).mean() for gap in range(-8, 9)]
        np.testing.assert_allclose(curves[f"head {head}"], ahead, atol=1e-6)


def test_a_mix_shows_its_kernel_the_right_way_round() -> None:
    encoding = resolve("erpe", max_len=5, **SIZES)
    with torch.no_grad():
        encoding.table.copy_(torch.arange(18.0).view(2, 9))
    maps = images(plot_encoding(encoding, 5, **SIZES))
    row, column = np.arange(5)[:, None], np.arange(5)
    for head, matrix in enumerate(maps):
        np.testing.assert_allclose(matrix, row - column + 4 + 9 * head, atol=1e-4)


def test_a_bias_that_queries_decide_says_so() -> None:
    encoding = resolve("shaw", max_len=5, **SIZES)
    with torch.no_grad():
        encoding.table.copy_(torch.arange(9.0)[:, None].expand(9, 4))
    figure = plot_encoding(encoding, 5, **SIZES)
    note = "(for queries of ones, on which it depends)"
    assert titles(figure) == [f"shaw: added to the scores {note}"]
    (matrix,) = images(figure)  # the heads share it
    ahead = np.arange(5) - np.arange(5)[:, None]
    np.testing.assert_allclose(matrix, 4 * (ahead + 4) / 2, atol=1e-6)
    assert panels(figure)[0].get_title() == "every head"


@pytest.mark.parametrize("name", ["conv", "wavelet"])
def test_what_acts_on_the_signal_is_shown_on_a_signal(name: str) -> None:
    figure = plot_encoding(name, 40, **SIZES)
    note = "(for a smooth random signal, on which it depends)"
    assert titles(figure) == [f"{name}: added to the tokens {note}"]
    values, similarity = images(figure)
    assert (values.std(axis=0) > 0).all()
    np.testing.assert_allclose(similarity.diagonal(), 1, atol=1e-5)
    again = images(plot_encoding(name, 40, **SIZES))
    assert np.array_equal(again[0], values)


def test_what_starts_at_zero_is_shown_with_random_weights_by_its_name_only() -> None:
    by_name = plot_encoding("erpe", 9, **SIZES)
    says = "erpe: added to the attention weights"
    assert titles(by_name) == [f"{says} (random weights: it is initialised to zero)"]
    assert all(matrix.std() > 0 for matrix in images(by_name))
    module = resolve("erpe", max_len=9, **SIZES)
    as_it_is = plot_encoding(module, 9, **SIZES)
    assert titles(as_it_is) == [says]
    assert not np.any(images(as_it_is))
    assert not module.table.any(), "drawing leaves the module as it was"


def test_before_and_after_a_training() -> None:
    name = "fixed+learnable+erpe"
    before = resolve(name, max_len=24, **SIZES)
    after = copy.deepcopy(before).train()
    with torch.no_grad():
        for parameter in after.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    figure = plot_encoding_change(before, after, 24, **SIZES, name=name)
    assert after.training, "drawing leaves the model as it was"
    assert_readable(figure)
    assert titles(figure) == [
        "fixed: added to the tokens, untouched by training",
        "learnable: added to the tokens, before training",
        "learnable: added to the tokens, after training",
        "erpe: added to the attention weights, before training",
        "erpe: added to the attention weights, after training",
    ]
    tables = [encoding.state_dict()["parts.1.table"].numpy() for encoding in (before, after)]
    shown = images(figure)
    np.testing.assert_allclose(shown[2], tables[0], atol=1e-6)
    np.testing.assert_allclose(shown[4], tables[1], atol=1e-6)
    limits = [ax.images[0].get_clim() for ax in panels(figure) if ax.images]
    assert limits[2] == limits[4], "the same colours before and after"
    assert limits[3] == limits[5]


def test_colors_are_fixed_and_told_apart() -> None:
    known = [encoding_color(name) for name in names()]
    assert len(set(known)) == len(known)
    assert encoding_color("lspe") == ENCODING_COLORS["lspe"] == "#D55E00"
    # The same in every process, unlike Python's own hash of a name.
    assert encoding_color("of my own") == "#9467BD"
    assert encoding_color("lspe, stem=conv") == encoding_color("lspe")


def test_no_two_methods_of_a_study_have_one_colour() -> None:
    own = [f"mine.Own{i}" for i in range(12)]
    colors = encoding_colors([*names(), *own, *BASELINES])
    apart = [*names(), *own]
    assert len({colors[name] for name in apart}) == len(apart)
    study = encoding_colors([*BASELINES, "mine.Own1, stem=conv", "mine.Own1, stem=linear"])
    assert len(set(study.values())) == len(BASELINES) + 1
    assert study["mine.Own1, stem=conv"] == study["mine.Own1, stem=linear"]
    assert encoding_colors(reversed(own)) == encoding_colors(own), "in any order"
    assert not {*encoding_colors(own).values()} & {*ENCODING_COLORS.values()}
