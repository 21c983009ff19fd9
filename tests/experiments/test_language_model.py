"""The language model experiment: its texts, n-gram models of them, and the script."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.language import corpus, language_model

SMALL = (
    *("--tokens", "1500", "--d-model", "16", "--n-layers", "1", "--length", "10"),
    *("--epochs", "2", "--min-count", "2"),
)


def test_ngrams_by_hand():
    """Counts of `0 1 0 2`, smoothed as Witten and Bell do, worked out on paper."""
    train, valid = torch.tensor([0, 1, 0, 2]), torch.tensor([0, 1])
    # Unigrams: 4 seen, 3 different. P(0) = (2 + 3/4) / 7, P(1) = (1 + 3/4) / 7 with 4 words.
    p0, p1 = (2 + 3 / 4) / 7, (1 + 3 / 4) / 7
    expected = math.exp(-(math.log(p0) + math.log(p1)) / 2)
    assert corpus.ngram_perplexity(train, valid, 4, 1) == pytest.approx(expected)
    # After 0: twice, by 1 and by 2. P(1 | 0) = (1 + 2 P(1)) / 4.
    expected = math.exp(-(math.log(p0) + math.log((1 + 2 * p1) / 4)) / 2)
    assert corpus.ngram_perplexity(train, valid, 4, 2) == pytest.approx(expected)


@pytest.mark.slow
def test_script_trains_tracks_prints_and_resumes(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    monkeypatch.chdir(tmp_path)  # where mlflow.db is created
    texts = [tmp_path / "train.txt", tmp_path / "valid.txt"]
    for text, n_lines in zip(texts, (200, 50), strict=True):
        text.write_text("one two three two one\nfour one two\n" * n_lines, encoding="utf-8")

    def run(*arguments: str) -> str:
        language_model.main([*SMALL, "--corpus", *map(str, texts), "--out", str(out), *arguments])
        return capsys.readouterr().out

    assert "none seed 0" in run("--encoding", "none", "--no-track")
    assert not (tmp_path / "mlflow.db").exists()
    printed = run("--encodings", "none,rope")
    assert "none seed 0" not in printed, "it was fitted already"
    rows = pd.read_csv(out / "language_model.csv")
    assert rows.groupby("encoding")["epoch"].apply(list).to_dict() == {
        "none": [1, 2], "rope": [1, 2], "unigram": [2], "trigram": [2]
    }  # fmt: skip
    fits = rows[rows["encoding"].isin(["none", "rope"])]
    first, last = (fits.loc[fits["epoch"] == n, "train_loss"].to_numpy() for n in (1, 2))
    assert (last < first).all()
    np.testing.assert_allclose(
        fits["valid_perplexity"], np.exp(fits["valid_loss"].to_numpy()), rtol=1e-3
    )
