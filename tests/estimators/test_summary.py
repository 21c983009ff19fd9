"""The summary of a fitted estimator: layers that add up, sizes, and every "auto" resolved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from small_estimators import NETWORK, X, Y, classifier, ensemble

from tsformer import ModelConfig, TSTransformer, TSTransformerClassifier
from tsformer.augmentation import CutMix
from tsformer.estimators.summary import layers_of
from tsformer.model.transformer import TransformerBlock

SIZES: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_outputs": 3, "n_channels": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"max_len": 300, "stem_params": {"n_residual": 1, "downsampling": "pool"}},
        {"max_len": 300, "stem_params": {"strides": (2, 3)}, "head_norm": "batch"},
        {"max_len": 20, "stem": "linear", "encoding": "tape+erpe", "pooling": "attention"},
        {"max_len": 50, "stem": "patch", "norm_first": False, "d_ff": 5, "n_layers": 1},
        {"max_len": 20, "n_layers": 0, "encoding": "none", "head_norm": "layer"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_layers_have_the_shapes_and_weights_of_the_model(options):
    model = TSTransformer(ModelConfig(**SIZES | options)).eval()
    table = layers_of(model).set_index("layer")
    assert table["parameters"].sum() == sum(each.numel() for each in model.parameters())
    assert table.loc["encoding", "parameters"] == sum(
        each.numel() for each in model.encoding.parameters()
    )
    found = {}

    def keep(name):
        def hook(module, given, output):
            tensor = output[0] if isinstance(output, tuple) else output
            found[name] = " × ".join(map(str, tensor.shape[1:]))

        return hook

    for name in table.index:
        parent = model.get_submodule(name) if name not in ("input", "encoding") else None
        if parent is not None:
            parent.register_forward_hook(keep(name))
    model(torch.zeros(1, options["max_len"], 2))
    assert len(found) == len(table) - 2
    assert table["output"].to_dict().items() >= found.items()
    n_blocks = sum(isinstance(each, TransformerBlock) for each in model.modules())
    assert table.index.str.endswith("attention").sum() == n_blocks


def test_the_values_are_those_of_the_fit():
    fitted = classifier(max_epochs=1, n_estimators=2, scaling="auto").fit(X, Y, X_val=X, y_val=Y)
    recipe = fitted.summary().recipe.set_index("parameter")["used"]
    assert recipe["scaling"] == str(fitted.preprocessor_.scaling)
    assert recipe["augmentation"] == repr(fitted.augmentation_)
    assert recipe["views"] == "values+difference"
    assert recipe[["max_epochs", "batch_size", "early_stopping"]].tolist() == ["1", "16", "True"]
    assert recipe[["device", "precision", "temperature"]].tolist() == ["cpu", "float32", "0.75"]
    fitted.temperatures_ = [0.5, 2.0]
    assert "[0.5, 2.0]" in str(fitted.summary())
    given = classifier(augmentation=CutMix(p=0.25), scaling=None, class_weight="balanced").fit(X, Y)
    recipe = given.summary().recipe.set_index("parameter")
    assert recipe.loc["class_weight"].tolist() == ["balanced", "balanced"]
    assert recipe.loc["scaling"].tolist() == ["None", "None"]
    assert "p=0.25" in recipe.loc["augmentation", "used"]


def test_sizes_and_members():
    fitted = classifier(n_estimators=2, stem="linear", views="values+difference").fit(X, Y)
    sizes = fitted.summary().sizes
    weights = sum(each.numel() for model in fitted.models_ for each in model.parameters())
    assert (sizes["members"], sizes["parameters"]) == (2, weights)
    assert (sizes["epochs"], sizes["steps"], sizes["tokens"]) == (2, 24, 24)
    assert sizes["receptive field in steps"] == 2, "a difference reads the step before"
    assert classifier(stem="linear").fit(X, Y).summary().sizes["receptive field in steps"] == 1


def test_an_ensemble_lists_its_parts():
    fitted = ensemble().fit(X, Y)
    summary = fitted.summary()
    assert summary.layers["layer"].tolist() == ["random_convolutions", "transformer"]
    parts = summary.parts
    assert str(parts["transformer"]) == str(fitted.transformer_.summary())
    numbers = {name: part.sizes["parameters"] for name, part in parts.items()}
    assert summary.sizes["parameters"] == sum(numbers.values())
    ridge = fitted.random_convolutions_.model_.ridge
    assert numbers["random_convolutions"] == ridge.coef.numel() + 2
    for shown in (str(summary), summary._repr_html_()):
        assert "blocks.0.attention" in shown
        assert "random, not trained" in shown


def test_text_and_html_show_the_same_and_html_is_escaped():
    fitted = TSTransformerClassifier(**NETWORK, class_weight={"<b>&": 2.0}, random_state=0)
    fitted.fit(X, np.array(["<b>&", "b"])[Y])
    summary = fitted.summary()
    page = summary._repr_html_()
    assert "{'<b>&': 2.0}" in str(summary)
    assert repr(summary) == str(summary)
    assert "<b>" not in page
    assert "<th>0</th>" not in page, "rows have no numbers"
    assert "{'&lt;b&gt;&amp;': 2.0}" in page
    for layer, _, output, n in summary.layers.to_numpy():
        assert f"<td>{layer}</td>" in page
        (line,) = (line for line in str(summary).splitlines() if line.startswith(f"{layer} "))
        assert output in line
        assert line.endswith(f"{n:,}")


def test_an_unfitted_estimator_has_none():
    with pytest.raises(NotFittedError):
        classifier().summary()
