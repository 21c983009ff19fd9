"""How accurate the final recipe is: problems on which nothing was chosen, scored once.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/confirmation.py problems.txt \
        [--scoring 2] [--changed PROBLEM ...] [--published FILE|FOLDER] [--methods METHOD ...] \
        [--jobs 2] --commit

The list has one name a line; a line that starts with # is a comment. Each fit sees the official
train split and is scored on the test split, once: its row says the commit of the package and the
date, and a fit that has a row is never repeated. Running the script again resumes with the fits
that are missing; rows of another commit are an earlier scoring, and make it refuse to go on. To
score a later recipe, say how often the problems have then been scored: ``--scoring 2`` writes
confirmation_2.csv. Where that recipe is another on a few problems alone, and trains the same models
on the rest, bit for bit, ``--changed`` names these few: the rows of the rest are those of the
scoring before, with its commit and date.

- "transformers" fits ``TSTransformerClassifier(n_estimators=4, random_state=0)``, and
  "random convolutions" ``RandomConvolutionClassifier(random_state=0)``. The first three members are
  the three seeds of one model, the mean of all four is the classifier with four members, and half
  of that with half of the random convolutions is ``TSEnsembleClassifier`` with members of the same
  seeds.
- "0.1.0" fits the recipe of version 0.1.0, with one seed.

At the end, the file of averages beside the rows gets the accuracy of each on each problem, averages
included, and each is compared with the published accuracies on the problems that those have. Once
all fits are there, the script does this at any commit.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.metrics import log_loss

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.accuracy.random_convolutions import names_in
from experiments.output import COMMITTED, UNTRACKED, add_output_options, fit_missing
from experiments.published import ANCHORS, PUBLISHED
from experiments.recipe_0_1 import recipe_0_1
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer._names import unknown
from tsformer.estimators.ensemble import WEIGHTS
from tsformer.studies.analysis.published import published_accuracies
from tsformer.tracking.store import commit

NAME = "confirmation"
METHODS = ("transformers", "random convolutions", "0.1.0")
#: Members that are the seeds of one model.
SEEDS = 3
N_MEMBERS = 4
#: The members of each ensemble.
ENSEMBLES = {"ensemble of one": 1, "ensemble of four": N_MEMBERS}

Proba = npt.NDArray[np.float64]


def unfitted(method: str, n_cases: int) -> Any:
    """Return the classifier of a method."""
    if method == "transformers":
        return TSTransformerClassifier(n_estimators=N_MEMBERS, random_state=0)
    if method == "random convolutions":
        return RandomConvolutionClassifier(random_state=0)
    return TSTransformerClassifier(random_state=0, **recipe_0_1(n_cases=n_cases))


def fit(method: str, dataset: str, folder: Path) -> dict[str, object]:
    """Fit to the train split, score the test split once, and keep its probabilities."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    start, used = time.perf_counter(), time.process_time()
    classifier = unfitted(method, len(y)).fit(X, y)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    X_test, y_test = load_dataset(dataset, split="test")
    classes = classifier.classes_
    whole: Proba = classifier.predict_proba(X_test)
    members = classifier.predict_proba_members(X_test) if method == "transformers" else whole[None]
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.searchsorted(classes, y_test)
    np.savez_compressed(folder / f"{method}-{dataset}.npz", members=members, labels=labels)
    return {
        "method": method,
        "dataset": dataset,
        "accuracy": accuracy(whole, labels),
        **{f"accuracy_{i}": accuracy(member, labels) for i, member in enumerate(members)},
        **{f"accuracy_{i}": np.nan for i in range(len(members), N_MEMBERS)},
        "log_loss": round(log_loss(labels, whole, labels=np.arange(len(classes))), 4),
        "fit_seconds": round(seconds, 1),
        "cpu_seconds": round(used, 1),
        "n_models": len(members),
        "version": tsformer.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def accuracy(proba: Proba, labels: npt.NDArray[np.int64]) -> float:
    """Return the share of series whose most probable class is the label."""
    return round(float((proba.argmax(axis=1) == labels).mean()), 6)


def stem(scoring: int) -> str:
    """Return the name that the files of a scoring begin with: the first has no number."""
    return NAME if scoring == 1 else f"{NAME}_{scoring}"


def averages_beside(path: Path) -> Path:
    """Return the file of averages that belongs to a file of rows."""
    return path.with_name(f"{path.stem}_averages.csv")


def averages(path: Path, folder: Path) -> pd.DataFrame:
    """Return the accuracy of each method and of their averages, a row for each problem.

    Where probabilities are no longer there, ensembles have the accuracies that were computed from
    them before, in the file beside `path`.
    """
    rows = pd.read_csv(path).set_index(["method", "dataset"])
    before = averages_beside(path)
    known = pd.read_csv(before, index_col="dataset") if before.exists() else pd.DataFrame()
    found: dict[str, dict[str, float]] = {}
    for dataset in rows.index.get_level_values("dataset").unique():
        own: dict[str, float] = {}
        for method in METHODS:
            if (method, dataset) not in rows.index:
                continue
            row = rows.loc[(method, dataset)]
            if method == "transformers":
                members = [row[f"accuracy_{i}"] for i in range(SEEDS)]
                own["one transformer"] = float(np.mean(members))
                own["four transformers"] = row.accuracy
            else:
                own[method] = row.accuracy
        both = all((method, dataset) in rows.index for method in METHODS[:2])
        files = [folder / f"{method}-{dataset}.npz" for method in METHODS[:2]]
        missing = [file for file in files if not file.exists()]
        if both and missing:
            if dataset not in known.index or known.loc[dataset, list(ENSEMBLES)].isna().any():
                raise SystemExit(
                    f"{missing[0]} is missing: probabilities are kept on the machine that scored "
                    f"the fits, and {before.name} cannot be made without them"
                )
            own |= known.loc[dataset, list(ENSEMBLES)].to_dict()
        elif both:
            ours, theirs = map(np.load, files)
            weights = WEIGHTS["transformer"], WEIGHTS["random_convolutions"]
            for name, n_members in ENSEMBLES.items():
                parts = ours["members"][:n_members].mean(axis=0), theirs["members"][0]
                mean = sum(w * part for w, part in zip(weights, parts, strict=True))
                own[name] = accuracy(mean, ours["labels"])
        found[dataset] = own
    return pd.DataFrame(found).T.sort_index()


def with_version_0_1_0(ours: pd.DataFrame, first: Path) -> pd.DataFrame:
    """Return the averages of a later scoring with version 0.1.0 as it was in the first."""
    earlier = pd.read_csv(first, index_col="dataset") if first.exists() else pd.DataFrame()
    if "0.1.0" in ours or "0.1.0" not in earlier:
        return ours
    return ours.join(earlier["0.1.0"])


def beside(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return the paired difference of each of our methods from each published one, in points."""
    columns = published.reindex(columns=ANCHORS)
    if "0.1.0" in ours:
        columns = columns.join(ours[["0.1.0"]], how="outer")
    rows = []
    for (name, own), (other, theirs) in itertools.product(ours.items(), columns.items()):
        apart = (own - theirs).dropna().round(4)
        if name == other or apart.empty:
            continue
        rows.append(
            {
                "ours": name,
                "other": other,
                "problems": len(apart),
                "mean of ours": own[apart.index].mean(),
                "points ahead": 100 * apart.mean(),
                "standard error": 100 * apart.sem(),
                "better": int((apart > 0).sum()),
                "equal": int((apart == 0).sum()),
                "worse": int((apart < 0).sum()),
                "worst": 100 * apart.min(),
            }
        )
    return pd.DataFrame(rows)


def carry_over(before: Path, path: Path, problems: Sequence[str], changed: Sequence[str]) -> None:
    """Begin the files of a scoring with rows of the one before: of problems that did not change."""
    if path.exists():
        return
    # The rows last: once they are there, all is.
    for old, new in ((averages_beside(before), averages_beside(path)), (before, path)):
        rows = pd.read_csv(old)
        same = rows["dataset"].isin(problems) & ~rows["dataset"].isin(changed)
        rows[same].to_csv(new, index=False)


def check_commit(path: Path, cells: Sequence[tuple[str, str]]) -> None:
    """End the program if fits are missing and the others are of another commit: they were final.

    What is not among the cells was carried over.
    """
    if not path.exists():
        return
    rows = pd.read_csv(path)
    rows = rows[rows["dataset"].isin([dataset for _, dataset in cells])]
    earlier = set(rows.commit) - {commit()}
    if earlier and set(cells) - set(zip(rows.method, rows.dataset, strict=True)):
        raise SystemExit(
            f"{path} has scores of commit {', '.join(sorted(earlier))[:100]}, but the package is "
            f"at {commit()}: these problems are scored once. Check that commit out to resume, or "
            "pass --scoring with the next number, and report it as that"
        )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problems", type=Path, help="file with one name a line")
    parser.add_argument(
        "--published", type=Path, default=PUBLISHED, help="CSV of published accuracies, or a folder"
    )
    parser.add_argument(
        "--scoring",
        type=int,
        default=1,
        metavar="N",
        help="how often the problems have been scored, this time included",
    )
    parser.add_argument(
        "--changed",
        nargs="+",
        default=[],
        metavar="PROBLEM",
        help="the problems on which models are others than in the scoring before; all by default",
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, NAME)
    options = parser.parse_args(argv)
    if options.scoring < 1:
        parser.error(f"--scoring is {options.scoring}; the first scoring is 1")
    if options.changed and options.scoring == 1:
        parser.error("--changed is since the scoring before; the first has none: pass --scoring")
    return options


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    name = stem(options.scoring)
    path = options.out / f"{name}.csv"
    # Probabilities are not committed: they are large.
    folder = (UNTRACKED if options.out == COMMITTED else options.out) / name
    problems = names_in(options.problems)
    for problem in options.changed:
        if problem not in problems:
            raise SystemExit(unknown(f"problem of {options.problems}", problem, problems))
    if options.changed:
        before = options.out / f"{stem(options.scoring - 1)}.csv"
        carry_over(before, path, problems, options.changed)
    cells = list(itertools.product(options.methods, options.changed or problems))
    check_commit(path, cells)
    keys = ["method", "dataset"]
    fits = fit_missing(path, keys, cells, partial(fit, folder=folder), options.jobs)
    fits.sort_values(keys).to_csv(path, index=False)
    ours = averages(path, folder)
    ours.round(6).to_csv(averages_beside(path), index_label="dataset")
    ours = with_version_0_1_0(ours, averages_beside(options.out / f"{NAME}.csv"))
    print(ours.round(4).to_string())
    print(ours.mean().round(4).to_string())
    published = published_accuracies(options.published)
    print(beside(ours, published).round(2).to_string(index=False))


if __name__ == "__main__":
    main()
