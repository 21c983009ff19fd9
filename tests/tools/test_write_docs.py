"""The generated tables are what their sources say."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.pretraining import few_labels
from tools import field, write_docs


@pytest.mark.parametrize(
    ("page", "name", "table"),
    [
        (write_docs.ACCURACY, "accuracy", write_docs.accuracy_table),
        (write_docs.README, "field", field.table),
        (write_docs.ACCURACY, "confirmation", write_docs.confirmation_table),
        (write_docs.ACCURACY, "second scoring", write_docs.second_scoring_table),
        (write_docs.ACCURACY, "third scoring", write_docs.third_scoring_table),
        (write_docs.ACCURACY, "field", field.table),
        (write_docs.ACCURACY, "small", write_docs.small_table),
        (write_docs.CHOOSING, "encodings", write_docs.encodings_table),
        (write_docs.EXPLANATIONS, "deletion", write_docs.deletion_table),
        (write_docs.FEW_LABELS_PAGE, "few labels", write_docs.few_labels_table),
        (write_docs.LARGE, "memory", write_docs.memory_table),
        (write_docs.TIME, "speed", write_docs.speed_table),
    ],
)
def test_table_is_fresh(page, name, table):
    table = table()
    text = page.read_text(encoding="utf-8")
    assert write_docs.filled(text, name, table) == text, "stale; run: python tools/write_docs.py"


@pytest.mark.parametrize(
    "name",
    [
        *("cut problems", "far sizes", "large data", "language model", "missing values", "recipe"),
        *("calibration", "long series", "both", "regression", "pretraining rate"),
        # These compare every pair of methods, of which there are 36 and 253, once per variant.
        pytest.param("which encoding", marks=pytest.mark.slow),
        pytest.param("encodings of today", marks=pytest.mark.slow),
        pytest.param("whole catalogue", marks=pytest.mark.slow),
    ],
)
def test_table_of_the_results_is_fresh(name):
    text = write_docs.RESULTS_README.read_text(encoding="utf-8")
    table = {
        "cut problems": write_docs.cut_table,
        "far sizes": write_docs.far_sizes_table,
        "large data": write_docs.large_table,
        "calibration": write_docs.calibration_table,
        "long series": write_docs.long_table,
        "both": write_docs.beside_table,
        "regression": write_docs.regression_table,
        "pretraining rate": write_docs.learning_rate_table,
        "language model": write_docs.language_table,
        "missing values": write_docs.missing_table,
        "recipe": write_docs.recipe_table,
        "which encoding": write_docs.study_table,
        "encodings of today": lambda: write_docs.study_table(write_docs.TODAY),
        "whole catalogue": lambda: write_docs.study_table(write_docs.CATALOGUE_STUDY),
    }[name]()
    assert len(table.splitlines()) > {"recipe": 2, "long series": 6, "far sizes": 5}.get(name, 9)
    assert write_docs.filled(text, name, table) == text, "stale; run: python tools/write_docs.py"


ROWS = """variant,dataset,seed,accuracy,fit_seconds
default,NATOPS,0,0.9,10
default,NATOPS,1,1.0,14
default,Fish,0,0.8,30
0.1.0,NATOPS,0,0.95,8
0.1.0,Fish,0,0.7,20
no warping,NATOPS,0,0.8,9
no warping,NATOPS,1,0.9,9
"""


def test_the_accuracy_table_compares_each_with_the_default_on_its_own_problems(tmp_path):
    names = ("ours", "others", "ridge", "both")
    ours, others, ridge, both = (tmp_path / f"{name}.csv" for name in names)
    both.write_text("dataset,seed,average\nFish,0,0.8\nFish,1,1.0\n", encoding="utf-8")
    ridge.write_text("dataset,seed,accuracy\nFish,0,0.8\nFish,1,0.9\n", encoding="utf-8")
    ours.write_text(ROWS, encoding="utf-8")
    others.write_text(
        "dataset,method,protocol,accuracy,source\n"
        "Fish,ROCKET,default split,0.98,a\nNATOPS,ROCKET,default split,0.91,a\n"
        "Fish,HC2,default split,0.7,a\nFish,HC2,mean of 30 resamples,0.9,a\n",
        encoding="utf-8",
    )
    assert write_docs.accuracy_table(ours, ridge, both, others).splitlines()[2:] == [
        "| `TSTransformerClassifier()` | 2 | 0.875 | – | – |",
        "| `TSTransformerClassifier()` of version 0.1.0 | 2 | 0.825 | +5.0 ± 5.0 | 1 / 1 / 0 |",
        "| `RandomConvolutionClassifier()` | 1 | 0.850 | -5.0 ± nan | 0 / 0 / 1 |",
        "| the average of the two | 1 | 0.900 | -10.0 ± nan | 0 / 0 / 1 |",
        "| HC2 (published) | 1 | 0.700 | +10.0 ± nan | 1 / 0 / 0 |",
        "| ROCKET (published) | 2 | 0.945 | -7.0 ± 11.0 | 1 / 0 / 1 |",
    ]


def test_the_confirmation_table_compares_each_with_others_on_the_problems_that_both_have(tmp_path):
    ours, others = tmp_path / "ours.csv", tmp_path / "others.csv"
    ours.write_text(
        "dataset,one transformer,random convolutions\nFish,0.9,0.7\nNATOPS,0.8,0.9\n", "utf-8"
    )
    others.write_text(
        "dataset,method,protocol,accuracy,source\n"
        "Fish,ROCKET,default split,0.8,a\nNATOPS,ROCKET,default split,0.8,a\n"
        "Fish,HC2,default split,0.7,a\n",
        "utf-8",
    )
    header, _, *rows = write_docs.confirmation_table(ours, others, tmp_path / "none").splitlines()
    assert header == "| method | mean accuracy | HC2 (1) | ROCKET (2) |"
    assert rows == [
        "| `TSTransformerClassifier()`, mean of three seeds | 0.850 | +20.0 ± nan (1 / 0 / 0) | "
        "+5.0 ± 5.0 (1 / 1 / 0) |",
        "| `RandomConvolutionClassifier()` | 0.800 | +0.0 ± nan (0 / 1 / 0) | "
        "+0.0 ± 10.0 (1 / 0 / 1) |",
    ]


def test_a_later_scoring_is_compared_with_version_0_1_0_of_the_first(tmp_path):
    first, ours, others = (tmp_path / f"{name}.csv" for name in ("first", "ours", "others"))
    first.write_text("dataset,one transformer,0.1.0\nFish,0.1,0.6\nNATOPS,0.1,0.7\n", "utf-8")
    ours.write_text("dataset,one transformer\nFish,0.9\nNATOPS,0.8\n", "utf-8")
    others.write_text(
        "dataset,method,protocol,accuracy,source\nFish,ROCKET,default split,0.8,a\n", "utf-8"
    )
    header, _, *rows = write_docs.confirmation_table(ours, others, first).splitlines()
    assert header == "| method | mean accuracy | ROCKET (1) | 0.1.0 (2) |"
    assert rows == [
        "| `TSTransformerClassifier()`, mean of three seeds | 0.850 | +10.0 ± nan (1 / 0 / 0) | "
        "+20.0 ± 10.0 (2 / 0 / 0) |",
        "| `TSTransformerClassifier()` of version 0.1.0 | 0.650 | -20.0 ± nan (0 / 0 / 1) | – |",
    ]


def test_the_deletion_table_has_a_mean_of_the_problems(tmp_path):
    path = tmp_path / "deletion.csv"
    rows = ["A,0,random values,0.8", "A,1,random values,0.6", "A,0,occlusion,0.5"]
    rows += ["B,0,random values,0.3", "B,0,occlusion,0.1", "C,0,random values,0.9"]
    path.write_text("dataset,seed,order,area\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert write_docs.deletion_table(path).splitlines()[2:] == [
        "| random values | 0.70 | 0.30 | 0.50 |",
        "| `occlusion` | 0.50 | 0.10 | 0.30 |",
    ]


def test_the_recipe_table_pairs_each_fit_with_the_default_of_its_seed(tmp_path):
    ours = tmp_path / "ours.csv"
    ours.write_text(ROWS, encoding="utf-8")
    assert write_docs.recipe_table(ours).splitlines()[2:] == [
        "| 0.1.0 | 2 | -2.5 ± 7.5 | 1 / 1 | -10.0 |",
        "| no warping | 2 | -10.0 ± nan | 0 / 1 | -10.0 |",
    ]


def test_what_was_measured_before_is_compared_with_what_the_default_was_then(tmp_path):
    ours = tmp_path / "ours.csv"
    rows = ["default,A,0,0.9", "no pooling,A,0,0.6", "32 tokens,A,0,0.5", "no warping,A,0,0.8"]
    ours.write_text("variant,dataset,seed,accuracy\n" + "\n".join(rows) + "\n", encoding="utf-8")
    gains = [line.split("|")[3].split()[0] for line in write_docs.recipe_table(ours).splitlines()]
    assert gains[2:] == ["-10.0", "-30.0", "-10.0"]


def test_a_table_without_its_place_is_an_error():
    with pytest.raises(ValueError, match="one place for the table 'costs'; it has 0"):
        write_docs.filled("a text", "costs", "| a |\n")


def test_tables_of_the_notes_are_fresh():
    text = write_docs.SPEED_NOTES.read_text(encoding="utf-8")
    assert write_docs.speed_notes(text) == text, "stale; run: python tools/write_docs.py"
    assert len(write_docs.speed_table().splitlines()) >= 2 + 2 * 4


def test_the_table_of_explanations_is_fresh():
    text = write_docs.EXPLANATIONS.read_text(encoding="utf-8")
    table = write_docs.explanations_table()
    assert write_docs.filled(text, "explanations", table) == text, (
        "stale; run: python tools/write_docs.py"
    )


def test_what_the_page_of_explanations_says_is_in_its_table():
    rows = pd.read_csv(write_docs.KNOWN_WINDOWS).set_index(["problem", "method"]).sort_index()
    of, text = rows.groupby(level=[0, 1]).mean(), write_docs.EXPLANATIONS.read_text("utf-8")
    text = " ".join(text.split())

    def mean(problem: str, method: str, column: str) -> str:
        return f"{abs(of.loc[(problem, method), column]):.2f}".lstrip("0")

    def least(method: str) -> str:
        return f"{rows.loc[('strided', method), 'hit'].min():.2f}".lstrip("0")

    gradients, product, rollout = "integrated_gradients", "gradient_x_input", "attention_rollout"
    found = ("strided", "window", "twice", "default")
    for says in (
        f"the decisive values have {mean('window', rollout, 'inside')} of it",
        f"in the window for {mean('window', rollout, 'hit')} of the series; "
        f"for {mean('default', rollout, 'hit')} with the larger model",
        f"{mean('default', rollout, 'inside')} inside",
        f"by {mean('absent', gradients, 'change')} on average, and what explains",
        f"second step, {mean('strided', gradients, 'uneven')} of the relevance is on the even",
        f"largest value in the window for {mean('strided', product, 'hit')} of the series only",
        f"with one of the three it is {least(product)}, and integrated gradients have "
        f"{least(gradients)} there",
        f"which is {mean('window', product, 'change')} on average, "
        f"by up to {mean('window', product, 'missed')}.",
        f"value is in the window for {mean('strided', 'shapley_sampling', 'hit')} of the series",
    ):
        assert says in text, says
    below = [
        (problem, method, row.seed)
        for problem in found
        for method in (gradients, "occlusion")
        for row in rows.loc[(problem, method)].itertuples()
        if row.hit < 0.95
    ]
    assert below == [("strided", gradients, 0)], "the page says that there is one case"
    assert 0.3 < 1 - of.xs(gradients, level=1).loc[[*found], "inside"].mean() < 0.36, "a third"


def test_what_the_page_says_of_few_labels_is_in_its_rows():
    rows = pd.read_csv(write_docs.FEW_LABELS)
    found = few_labels.gains(rows).set_index(["method", "train_size"])
    masked = found.loc["masked"]
    assert (masked["gain"].abs() < 2 * masked["standard_error"]).all(), "beyond noise nowhere"
    assert masked["gain"].abs().max() < 0.01, "less than a point"
    assert (masked["gain"] > 0).tolist() == [True, False, False, True], "loses in between"
    contrastive = found.loc["contrastive"]
    assert (contrastive["gain"] < 0).all(), "behind at every share"
    beyond = contrastive["gain"] < -2 * contrastive["standard_error"]
    assert beyond.tolist() == [False, False, False, True], "beyond noise with all labels alone"
    few = rows[rows["train_size"] == "10%"].pivot_table("accuracy", "dataset", "method")
    of_each = few["masked"] - few["from scratch"]
    assert (of_each.idxmax(), round(100 * of_each.max())) == ("OSULeaf", 7)
    assert (of_each.idxmin(), round(100 * of_each.min())) == ("SelfRegulationSCP1", -3)
    assert abs(few["masked"].mean() - few["minirocket"].mean()) < 0.01, "within a point"
    seconds = rows.groupby("method")[["fit_seconds", "pretraining_seconds"]].mean().sum(axis=1)
    assert seconds["minirocket"] < seconds["masked"] / 100, "a hundredth of the time"
    assert rows["seed"].nunique() == 3, "the page says that there are three seeds"


def test_what_the_page_says_of_deletion_is_in_its_table():
    rows = pd.read_csv(write_docs.DELETION)
    area = rows.pivot_table("area", ["dataset", "seed"], "order")
    assert area.groupby("dataset").size().tolist() == [3] * 6, "three models a problem, 18 in all"
    random = area[["random values", "random windows"]]
    lowest = random.min(axis=1)
    for method in ("integrated_gradients", "gradient_x_input"):
        assert (area[method] < lowest).all(), "below both random orders with each"
        apart = (lowest - area[method]).groupby("dataset").mean()
        assert apart.index[apart < 0.01].tolist() == ["Fish"], "by less than .01 on average"
    for method in ("occlusion", "shapley_sampling"):
        assert (area[method] < random["random windows"]).all(), "below random windows with each"
        below = (area[method] < random["random values"]).mean()
        assert 0.6 < below < 0.75, "below single values with two in three"
    rollout = area["attention_rollout"].mean()
    assert random.mean().min() - 0.01 < rollout < random.mean().max() + 0.02, (
        "no better than chance"
    )


def test_the_table_of_explanations_averages_models(tmp_path):
    rows = [
        {"problem": "window", "seed": seed, "method": "occlusion", "hit": hit, "hit_time": 1.0}
        | {"inside": 0.5, "change": 2.0, "missed": 0.1, "uneven": 0.5}
        for seed, hit in enumerate((0.5, 1.0))
    ]
    rows += [{**rows[0], "problem": "absent"}]
    pd.DataFrame(rows).to_csv(tmp_path / "known.csv", index=False)
    assert write_docs.explanations_table(tmp_path / "known.csv").splitlines()[2:] == [
        "| window | `occlusion` | 0.75 | 1.00 | 0.50 | 2.00 | 0.10 | 0.50 |",
        "| absent | `occlusion` | – | – | – | 2.00 | 0.10 | 0.50 |",
    ]
