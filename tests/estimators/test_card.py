"""The card of a saved model, and the summary: true facts, held-out scores only, sizes."""

import re
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from small_estimators import FIVE, RAGGED, TIMES, X, Y, classifier, convolutions, ensemble

from tsformer import ModelConfig, TSTransformer, load
from tsformer.augmentation import CutMix
from tsformer.estimators.summary import card, layers_of
from tsformer.training import Callback

LABELS = np.array(["no", "yes"])[Y]
FRAMES = [pd.DataFrame(x.T, columns=["left", "right"]) for x in X]
DATES = [pd.date_range("2024-01-01", periods=x.shape[1], freq="h") for x in RAGGED]

#: Without the choices that "auto" makes from the data.
quick = partial(classifier, scaling="channel", augmentation=None, max_epochs=1)


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the cells of all tables by the first of their row."""
    lines = re.findall(r"^\| (.*) \|$", text, flags=re.M)
    return {first: rest for first, *rest in (re.split(r" (?<!\\)\| ", line) for line in lines)}


def run_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(
        r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.DOTALL | re.M
    )
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(program, "README.md", "exec"), {})


@pytest.mark.parametrize("name", FIVE)
def test_each_estimator_has_a_card_whose_program_runs(name, tmp_path, monkeypatch, capsys):
    estimator = FIVE[name]()
    with pytest.raises(NotFittedError):
        estimator.summary()
    fitted = estimator.fit(X, Y if name == "regressor" else LABELS)
    fitted.save(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.partition("\n---\n")[2].startswith(f"# {type(fitted).__name__}\n")
    rows = rows_of(text)
    assert rows["series"] == ["16"]
    assert re.search("^    random_state +0 +0$", text, flags=re.M)
    if name not in ("regressor", "encoder"):
        assert rows["classes"] == ["no (8), yes (8)"]
    loaded, summary = load(tmp_path), fitted.summary()
    assert card(loaded) == card(fitted)
    assert str(loaded.summary()) == str(summary)
    recipe = summary.recipe.set_index("parameter")
    automatic = {key for key, value in fitted.get_params(deep=False).items() if value == "auto"}
    assert automatic == set(recipe.index[recipe["set"] == "auto"])
    assert not set(recipe["used"]) & {"auto", "not recorded"}
    assert "timestamps" not in recipe.index, "a default"
    run_program(tmp_path, monkeypatch)
    series = [np.zeros((2, 24))]
    output = fitted.transform(series) if name == "encoder" else fitted.predict(series)
    assert capsys.readouterr().out == f"{output}\n"
    task = {"regressor": "time-series-regression", "encoder": "feature-extraction"}
    assert task.get(name, "time-series-classification") in text.partition("\n---\n")[0]


@pytest.mark.parametrize(
    ("make", "series", "times"),
    [
        (quick, RAGGED, TIMES),
        (quick, RAGGED, DATES),
        (quick, FRAMES, None),
        (quick, pd.DataFrame(X[:, 0], columns=[f"t{i}" for i in range(24)]), None),
        (partial(quick, stem="embedding"), (X[:, :1] > 0).astype(int), None),
        (ensemble, RAGGED, DATES),
    ],
    ids=["numbers", "dates", "names", "wide", "codes", "ensemble"],
)
def test_the_program_of_the_card_predicts(make, series, times, tmp_path, monkeypatch, capsys):
    make().fit(series, LABELS, times=times).save(tmp_path)
    run_program(tmp_path, monkeypatch)
    assert capsys.readouterr().out in ("['no']\n", "['yes']\n")


def test_the_data_are_described():
    fitted = quick().fit(RAGGED[1:], LABELS[1:], X_val=RAGGED[:4], y_val=LABELS[:4])
    lengths = [x.shape[1] for x in RAGGED[1:]]
    share = sum(np.isnan(x).sum() for x in RAGGED[1:]) / (2 * sum(lengths))
    rows = rows_of(card(fitted))
    expected = {"series": "15", "validation series": "4", "missing values": f"{share:.2%}"}
    expected |= {"classes": "no (7), yes (8)", "steps, at most": f"{max(lengths)}"}
    assert {key: rows[key] for key in expected} == {key: [v] for key, v in expected.items()}
    assert "names of channels" not in rows
    rows = rows_of(card(quick(init_from=quick().fit(X, Y)).fit(FRAMES, LABELS)))
    assert (rows["names of channels"], rows["initial weights"]) == (["left, right"], ["pretrained"])


def test_only_held_out_scores_are_scores():
    fitted = quick(n_estimators=2).fit(X, Y)
    assert "No score on held-out series is recorded." in card(fitted)
    weights = [1, 2, 3, 1, 2, 3]
    fitted.calibrate(X[:6], Y[:6], sample_weight=weights)
    accuracy = fitted.score(X[:6], Y[:6], weights)
    loss = log_loss(Y[:6], fitted.predict_proba(X[:6]), sample_weight=weights)
    rows = rows_of(card(fitted))
    assert rows["accuracy on the 6 calibration series"] == [f"{accuracy:.4g}"]
    assert rows["log loss on the 6 calibration series"] == [f"{loss:.4g}"]
    fitted.fit(X, Y)
    assert "No score on held-out series" in card(fitted), "calibration was of another model"
    fitted.calibrate(X, Y, cv=2)
    assert "accuracy out of fold for the 16 calibration series" in rows_of(card(fitted))


def test_validation_scores_are_of_the_kept_epoch():
    wrong = {"X_val": X[:5], "y_val": 1 - Y[:5]}  # training makes them worse
    fitted = quick(n_estimators=2, max_epochs=3, learning_rate=0.01).fit(X, Y, **wrong)
    assert all(history.best_epoch < len(history) for history in fitted.histories_)
    kept = [history[history.best_epoch - 1] for history in fitted.histories_]
    scores = fitted.held_out_scores()
    assert scores["validation loss"] == np.mean([row["val_loss"] for row in kept])
    assert scores["validation accuracy"] == np.mean([row["val_score"] for row in kept])
    last = quick(early_stopping=False).fit(X, Y, X_val=X[:5], y_val=Y[:5])
    assert last.held_out_scores()["validation loss"] == last.history_[-1]["val_loss"]


def test_random_convolutions_are_scored_by_leaving_out():
    fitted = convolutions().fit(X, Y)
    proba, _ = fitted.left_out()
    scores = fitted.held_out_scores()
    accuracy = scores["accuracy, leaving out single series"]
    assert accuracy == float(np.mean(proba.argmax(axis=1) == Y))
    scores = convolutions().fit(X, Y, groups=np.arange(16) // 2).held_out_scores()
    assert "accuracy, leaving out groups" in scores


def test_no_name_leaves_its_place(tmp_path):
    markdown_it = pytest.importorskip("markdown_it", reason='needs the extra "statistics"')
    evil = ["<script>", "a | b", "*b*\n# c", "`x`\n```", "[d](e)"]
    series = [pd.DataFrame(x.T, columns=["<b>|", "y\r## y"]) for x in np.tile(X, (2, 1, 1))[:20]]
    fitted = quick(class_weight=dict.fromkeys(evil, 1.0))
    fitted.fit(series, np.array(evil, dtype=object)[np.arange(20) % 5]).save(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8").partition("\n---\n")[2]
    parser = markdown_it.MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    headings = [b.content for a, b in pairwise(tokens) if a.type == "heading_open"]
    assert len(headings) == 6
    html = [token.content for token in tokens if token.type == "html_block"]
    assert len(html) == 1
    assert html[0].startswith("<!-- tsformer wrote this card")
    page = parser.render(text)
    for shown in ("&lt;script&gt;", "a | b", "*b* # c", "&lt;b&gt;|", "## y"):
        assert shown in page
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert page.count("<tr>") == sum(not line.startswith("| ---") for line in lines)


SIZES: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_outputs": 3, "n_channels": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"max_len": 300, "stem_params": {"strides": (2, 3)}, "head_norm": "batch"},
        {"max_len": 20, "stem": "linear", "encoding": "tape+erpe", "pooling": "attention"},
        {"max_len": 50, "stem": "patch", "norm_first": False, "d_ff": 5, "n_layers": 1},
    ],
    ids=str,
)
def test_layers_have_the_shapes_and_weights_of_the_model(options):
    model = TSTransformer(ModelConfig(**SIZES | options)).eval()
    table = layers_of(model).set_index("layer")
    assert table["parameters"].sum() == sum(weight.numel() for weight in model.parameters())
    encoding = sum(weight.numel() for weight in model.encoding.parameters())
    assert table.loc["encoding", "parameters"] == encoding
    shapes = {}
    for name in table.index.drop(["input", "encoding"]):

        def keep(module, inputs, output, name=name):
            tensor = output[0] if isinstance(output, tuple) else output
            shapes[name] = " × ".join(map(str, tensor.shape[1:]))

        model.get_submodule(name).register_forward_hook(keep)
    model(torch.zeros(1, options["max_len"], 2))
    assert len(shapes) == len(table) - 2
    strides = options.get("stem_params", {}).get("strides", ())
    assert table.index.str.startswith("stem.").sum() == len(strides), "a row a convolution"
    assert table["output"].to_dict().items() >= shapes.items()


def test_summary_shows_used_values():
    fitted = classifier(max_epochs=1, n_estimators=2, scaling="auto").fit(X, Y, X_val=X, y_val=Y)
    recipe = fitted.summary().recipe.set_index("parameter")["used"]
    assert recipe["scaling"] == str(fitted.preprocessor_.scaling)
    assert recipe["augmentation"] == repr(fitted.augmentation_)
    assert recipe[["max_epochs", "batch_size", "early_stopping"]].tolist() == ["1", "16", "True"]
    assert recipe[["device", "precision", "temperature"]].tolist() == ["cpu", "float32", "0.75"]
    fitted.temperatures_ = [0.5, 2.0]
    assert "[0.5, 2.0]" in str(fitted.summary())
    clf = classifier(augmentation=CutMix(p=0.25), class_weight={"<b>": 2}, callbacks=[Callback()])
    summary = clf.fit(X, np.array(["<b>", "b"])[Y]).summary()
    recipe = summary.recipe.set_index("parameter")
    assert recipe.loc["class_weight"].tolist() == ["{'<b>': 2}", "{'<b>': 2}"]
    assert "callbacks" not in recipe.index
    assert "<b>" not in summary._repr_html_()


def test_sizes_and_members():
    fitted = classifier(n_estimators=2, stem="linear", views="values+difference").fit(X, Y)
    sizes = fitted.summary().sizes
    weights = sum(weight.numel() for model in fitted.models_ for weight in model.parameters())
    assert (sizes["members"], sizes["parameters"]) == (2, weights)
    assert (sizes["epochs"], sizes["steps"], sizes["tokens"]) == (2, 24, 24)
    assert sizes["receptive field in steps"] == 2, "a difference reads the step before"


def test_an_ensemble_lists_its_parts():
    fitted = ensemble().fit(X, Y)
    summary = fitted.summary()
    assert summary.layers["layer"].tolist() == ["random_convolutions", "transformer"]
    assert str(summary.parts["transformer"]) == str(fitted.transformer_.summary())
    for shown in (str(summary), summary._repr_html_()):
        assert "blocks.0.attention" in shown
        assert "random, not trained" in shown
