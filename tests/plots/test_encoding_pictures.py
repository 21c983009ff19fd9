"""Pictures of encodings show the right numbers, can be read, and leave the modules as they are."""

import copy

import numpy as np
import pytest
import torch
from marks import exhaustive_except
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


def test_scores_are_those_that_attention_sees() -> None:
    """Heads apart where they differ, queries against keys and not themselves, widened or not."""
    encoding = resolve("tupe", max_len=9, **SIZES)
    ones, t = torch.ones(1, 2, 9, 4), torch.arange(9.0)[None]
    with torch.no_grad():
        q, k = encoding.rotate(ones, ones, t)
    figure = plot_encoding(encoding, 9, **SIZES)
    values, scores = images(figure)
    np.testing.assert_allclose(values, q[0, 0], atol=1e-6)
    np.testing.assert_allclose(scores, q[0, 0] @ k[0, 0].T / 4, atol=1e-6)
    curves = {line.get_label(): line.get_ydata() for line in panels(figure)[-1].lines}
    for head in range(2):
        matrix = (q[0, head] @ k[0, head].T / 4).numpy()
        ahead = [matrix.diagonal(gap).mean() for gap in range(-8, 9)]
        np.testing.assert_allclose(curves[f"head {head}"], ahead, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [  # a mix by the step from key to query; a bias by the step from query to key, for all heads
        ("erpe", torch.arange(18.0).view(2, 9), lambda ahead, head: 4 - ahead + 9 * head),
        ("shaw", torch.arange(9.0)[:, None].expand(9, 4), lambda ahead, head: 2 * (ahead + 4)),
    ],
)
def test_kernels_are_shown_the_right_way_round(name, table, expected) -> None:
    encoding = resolve(name, max_len=5, **SIZES)
    with torch.no_grad():
        encoding.table.copy_(table)
    maps = images(plot_encoding(encoding, 5, **SIZES))
    assert len(maps) == (2 if name == "erpe" else 1)
    for head, matrix in enumerate(maps):
        ahead = np.arange(5) - np.arange(5)[:, None]
        np.testing.assert_allclose(matrix, expected(ahead, head), atol=1e-4)


@pytest.mark.parametrize("name", ["conv", "wavelet"])
def test_what_acts_on_the_signal_is_shown_on_a_signal(name: str) -> None:
    values, similarity = images(plot_encoding(name, 40, **SIZES))
    assert (values.std(axis=0) > 0).all()
    np.testing.assert_allclose(similarity.diagonal(), 1, atol=1e-5)
    assert np.array_equal(images(plot_encoding(name, 40, **SIZES))[0], values), "the same signal"


def test_what_starts_at_zero_is_shown_with_random_weights_by_its_name_only() -> None:
    by_name = plot_encoding("erpe", 9, **SIZES)
    assert "random weights" in titles(by_name)[0]
    assert all(matrix.std() > 0 for matrix in images(by_name))
    module = resolve("erpe", max_len=9, **SIZES)
    assert not np.any(images(plot_encoding(module, 9, **SIZES)))
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
    shown = [(title.split(":")[0], title.split()[-2]) for title in titles(figure)]
    twice = [(summand, when) for summand in ("learnable", "erpe") for when in ("before", "after")]
    assert shown == [("fixed", "by"), *twice], "untouched by training"
    tables = [encoding.state_dict()["parts.1.table"].numpy() for encoding in (before, after)]
    np.testing.assert_allclose(images(figure)[2:5:2], tables, atol=1e-6)
    limits = [ax.images[0].get_clim() for ax in panels(figure) if ax.images]
    assert limits[2:4] == limits[4:6], "the same colours before and after"


def test_no_two_methods_of_a_study_have_one_colour() -> None:
    classes = [f"mine.Own{i}" for i in range(12)]
    colors, apart = encoding_colors([*names(), *classes, *BASELINES]), [*names(), *classes]
    assert len({colors[name] for name in apart}) == len(apart)
    study = encoding_colors([*BASELINES, "mine.Own1, stem=conv", "mine.Own1, stem=linear"])
    assert len(set(study.values())) == len(BASELINES) + 1
    assert study["mine.Own1, stem=conv"] == study["mine.Own1, stem=linear"]
    assert encoding_colors(reversed(classes)) == encoding_colors(classes), "in any order"
    assert not {*encoding_colors(classes).values()} & {*ENCODING_COLORS.values()}
    assert encoding_color("lspe, stem=conv") == ENCODING_COLORS["lspe"] == "#D55E00"
    assert encoding_color("of my own") == "#9467BD", "in every process, unlike Python's hash"
