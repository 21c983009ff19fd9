"""Text as tokens, and the perplexity of n-gram models of it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

END, UNKNOWN = "<eos>", "<unk>"


@dataclass(frozen=True)
class Corpus:
    """Two texts as word indices. `vocabulary` holds the words of the training text alone."""

    name: str
    vocabulary: list[str]
    train: Tensor
    valid: Tensor


def read_corpus(train_file: Path, valid_file: Path, n_tokens: int, min_count: int) -> Corpus:
    """Read a text to train on and a text to evaluate on.

    Words are separated by whitespace; the end of a line is a token. Words that occur fewer than
    `min_count` times in the training text become one unknown word.
    """
    name = f"{train_file.parent.name}/{train_file.name}, {valid_file.name}"
    train, valid = (_words(file.read_text(encoding="utf-8")) for file in (train_file, valid_file))
    train, valid = train[:n_tokens], valid[:n_tokens]
    counts = Counter(train)
    kept = [word for word, count in counts.most_common() if count >= min_count and word != UNKNOWN]
    vocabulary = [UNKNOWN, *kept]
    number = {word: i for i, word in enumerate(vocabulary)}
    as_numbers = (torch.tensor([number.get(word, 0) for word in text]) for text in (train, valid))
    return Corpus(name, vocabulary, *as_numbers)


def windows(text: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Cut a text ``[n]`` into inputs and targets ``[n // length, length]``, one token apart."""
    n = (len(text) - 1) // length
    if n < 1:
        raise SystemExit(
            f"a text of {len(text)} tokens is too short for a window of {length} and a next token"
        )
    return text[: n * length].view(n, length), text[1 : n * length + 1].view(n, length)


def ngram_perplexity(train: Tensor, valid: Tensor, vocab_size: int, order: int) -> float:
    """Return the perplexity of an n-gram model with Witten-Bell smoothing.

    A context that occurs `c` times, followed by `u` different words, gives its own counts the
    weight ``c / (c + u)`` and the rest to the context shorter by one; below unigrams all words are
    equally likely.
    """
    words, text = train.tolist(), valid.tolist()
    counts = [
        Counter(zip(*(words[i:] for i in range(n)), strict=False)) for n in range(1, order + 1)
    ]
    seen: Counter[tuple[int, ...]] = Counter()
    followers: Counter[tuple[int, ...]] = Counter()
    for grams in counts:
        for gram, count in grams.items():
            seen[gram[:-1]] += count
            followers[gram[:-1]] += 1
    loss = 0.0
    for i, word in enumerate(text):
        chance = 1 / vocab_size
        for n, grams in enumerate(counts):
            context = tuple(text[i - n : i]) if i >= n else None
            if context in seen:
                n = grams[(*context, word)]
                chance = (n + followers[context] * chance) / (seen[context] + followers[context])
        loss -= math.log(chance)
    return math.exp(loss / len(text))


def _words(text: str) -> list[str]:
    return [word for line in text.splitlines() if line.strip() for word in (*line.split(), END)]
