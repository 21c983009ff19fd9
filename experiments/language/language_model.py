"""Encodings in a causal language model: loss and perplexity after each epoch.

    python experiments/language/language_model.py --corpus folder/valid.txt folder/test.txt
        --encodings none,lspe,rope --seeds 5 --jobs 2

Trains on the first text and evaluates on the second, beside unigrams and trigrams of the same
words. The rows of a fit, one per epoch, are appended to language_model.csv when the fit ends;
running the same command again resumes with the fits that are missing. Each fit is an MLflow run
with its curves and the encoding before and after.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.language.corpus import Corpus, ngram_perplexity, read_corpus, windows
from experiments.output import add_output_options, append_rows
from tsformer._devices import resolve_device
from tsformer._random import seeded
from tsformer.data.panel import Panel
from tsformer.model import TokenTransformer
from tsformer.training import Callback, TrainingPlan, TrainingState, train

#: Settings that identify a fit in the CSV.
SETTINGS = (
    *("d_model", "n_layers", "n_heads", "dropout", "batch_size", "length", "epochs"),
    *("learning_rate", "tokens", "min_count"),
)

COLUMNS = (
    *("corpus", "encoding", "seed", "epoch", "train_loss", "valid_loss"),
    *("train_perplexity", "valid_perplexity", "fit_seconds", *SETTINGS),
)
#: Models that count words instead of learning: name -> length of the n-grams.
BY_COUNTING = {"unigram": 1, "trigram": 3}


def losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of each window, in nats per token."""
    values = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return values.view_as(targets).mean(dim=1)


class Evaluation(Callback):
    """Adds the loss on the second text to each epoch's row of the history, and prints the row."""

    def __init__(self, label: str, inputs: Tensor, targets: Tensor):
        self.label = label
        self.inputs, self.targets = inputs, targets
        self.rows: list[dict[str, float]] = []

    def on_epoch_end(self, state: TrainingState) -> None:
        row = state.history[-1]
        row["val_loss"] = evaluate(state.model, self.inputs, self.targets, state.plan.device)
        self.rows.append(
            {
                "epoch": state.epoch,
                "train_loss": round(row["loss"], 5),
                "valid_loss": round(row["val_loss"], 5),
                "train_perplexity": round(math.exp(row["loss"]), 2),
                "valid_perplexity": round(math.exp(row["val_loss"]), 2),
            }
        )
        print(f"{self.label}  {self.rows[-1]}", flush=True)


@torch.inference_mode()
def evaluate(
    model: torch.nn.Module, inputs: Tensor, targets: Tensor, device: torch.device
) -> float:
    """Return the mean loss per token, in eval mode."""
    was_training = model.training
    model.eval()
    total = torch.zeros((), device=device)
    for x, y in zip(inputs.split(64), targets.split(64), strict=True):
        total += losses(model(x.to(device)).float(), y.to(device)).sum()
    model.train(was_training)
    return total.item() / len(inputs)


def fit(
    corpus: Corpus, encoding: str, seed: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Train one model; return one row per epoch."""
    if options.device == "cpu":
        torch.set_num_threads(1)
    with seeded(seed, torch.device("cpu")):
        model = TokenTransformer(
            len(corpus.vocabulary),
            max_len=options.length,
            encoding=encoding,
            d_model=options.d_model,
            n_heads=options.n_heads,
            n_layers=options.n_layers,
            d_ff=options.d_model,
            dropout=options.dropout,
            init_range=0.1,
        )
    inputs, targets = windows(corpus.train, options.length)
    plan = TrainingPlan(
        n_epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        weight_decay=0.05,
        device=resolve_device(options.device),
        seed=seed,
    )
    evaluation = Evaluation(f"{encoding} seed {seed}", *windows(corpus.valid, options.length))
    callbacks: list[Callback] = [evaluation]
    same = {name: getattr(options, name) for name in SETTINGS}
    head = {"corpus": corpus.name, "encoding": encoding, "seed": seed}
    with ExitStack() as stack:
        if options.track:
            from tsformer.tracking import MLflowTracker, prepare_store

            store = prepare_store(None, "tsformer language model")
            run = stack.enter_context(store.start(f"{encoding} {seed}", kind="fit"))
            run.params({**head, **same})
            callbacks.append(MLflowTracker(run, pictures=True))
        start = time.perf_counter()
        lengths = torch.full((len(inputs),), options.length)
        train(model, Panel(inputs, lengths), targets, losses, plan, callbacks=callbacks)
        seconds = round(time.perf_counter() - start, 1)
        if len(evaluation.rows) < options.epochs:
            raise KeyboardInterrupt  # a fit that was cut short is not a result
    return [{**head, **row, "fit_seconds": seconds, **same} for row in evaluation.rows]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--corpus", type=Path, nargs=2, default=[Path("valid.txt"), Path("test.txt")]
    )
    parser.add_argument("--encoding", "--encodings", dest="encodings", default="lspe")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=100_000, help="at most, of each text")
    parser.add_argument(
        "--min-count", type=int, default=5, help="rarer words become one unknown word"
    )
    parser.add_argument("--d-model", type=int, default=200)
    parser.add_argument("--n-layers", type=int, default=2)
    parser.add_argument("--n-heads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--length", type=int, default=35, help="tokens per window")
    parser.add_argument("--learning-rate", type=float, default=0.0005)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    parser.add_argument(
        "--no-track", dest="track", action="store_false", help="do not track in MLflow"
    )
    add_output_options(parser, "language_model")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    path = options.out / "language_model.csv"
    corpus = read_corpus(*options.corpus, options.tokens, options.min_count)
    sizes = f"{len(corpus.train):,} and {len(corpus.valid):,} tokens"
    print(f"{corpus.name}: {sizes}, {len(corpus.vocabulary):,} words", flush=True)
    same = {"corpus": corpus.name, **{name: getattr(options, name) for name in SETTINGS}}
    done = results(path, same)
    finished = set(done[["encoding", "seed"]].itertuples(index=False, name=None))
    # Seed by seed, so that a run that is stopped has as many seeds of each encoding.
    cells = [(e, s) for s in range(options.seeds) for e in options.encodings.split(",")]
    if options.track:
        from tsformer.tracking import prepare_store

        prepare_store(None, "tsformer language model")
    fits = joblib.Parallel(options.jobs, return_as="generator_unordered")(
        joblib.delayed(fit)(corpus, *cell, options) for cell in cells if cell not in finished
    )
    for rows in itertools.chain(counted(corpus, finished, same, options.epochs), fits):
        append_rows(pd.DataFrame(rows, columns=COLUMNS), path)
    print(table(results(path, same)).round(2).to_string(index=False))


def counted(
    corpus: Corpus, finished: set[tuple[str, int]], same: dict[str, Any], epoch: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield one row per n-gram model, with its perplexity."""
    for name, order in BY_COUNTING.items():
        if (name, 0) not in finished:
            value = ngram_perplexity(corpus.train, corpus.valid, len(corpus.vocabulary), order)
            row = {"encoding": name, "seed": 0, "epoch": epoch, "valid_perplexity": round(value, 2)}
            yield [{**same, **row}]


def results(path: Path, same: dict[str, Any]) -> pd.DataFrame:
    """Return the rows of earlier fits to the same text with the same settings."""
    if not path.exists():
        return pd.DataFrame(columns=["encoding", "seed"])
    rows = pd.read_csv(path)
    return rows[(rows[list(same)] == pd.Series(same)).all(axis=1)]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the perplexities after the last epoch, best first, n-gram models included.

    Differences are from `none` under the same seed, with the standard error of their mean.
    """
    last = rows[rows["epoch"] == rows["epoch"].max()]
    by_seed = last.pivot_table(index="seed", columns="encoding", values="valid_perplexity")
    lines = []
    for name, fits in last.groupby("encoding", sort=False):
        line = {
            "model": name,
            "valid perplexity": fits["valid_perplexity"].mean(),
            "deviation": fits["valid_perplexity"].std(),
            "train perplexity": fits["train_perplexity"].mean(),
            "seeds": 0 if name in BY_COUNTING else len(fits),
        }
        if "none" in by_seed and name != "none" and name not in BY_COUNTING:
            apart = (by_seed[name] - by_seed["none"]).dropna()
            line |= {"from none": apart.mean(), "error": apart.sem()}
        lines.append(line)
    return pd.DataFrame(lines).sort_values("valid perplexity", ignore_index=True)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"language_model.py: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; completed fits are kept, and the same command resumes")
