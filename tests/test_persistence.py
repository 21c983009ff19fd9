"""The files of a saved estimator: missing, spoilt, replaced, or not ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import tsformer
from tsformer import TSTransformerClassifier, load

X = np.random.default_rng(0).normal(size=(12, 2, 20))
Y = np.arange(12) % 2


def fitted(encoding="lspe", random_state=0) -> TSTransformerClassifier:
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}
    return TSTransformerClassifier(encoding, **small, random_state=random_state).fit(X, Y)


def assert_same(loaded: TSTransformerClassifier, clf: TSTransformerClassifier) -> None:
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "models" / "clf"


@pytest.fixture
def saved(path):
    fitted().save(path)
    return path


def test_not_fitted(path):
    with pytest.raises(NotFittedError):
        TSTransformerClassifier().save(path)


def test_a_generator_cannot_be_saved(path):
    clf = fitted(random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match=r"RandomState, which cannot be .* random_state as an int"):
        clf.save(path)


def test_what_is_something_else_is_not_overwritten(tmp_path):
    file, folder, empty = tmp_path / "notes.txt", tmp_path / "thesis", tmp_path / "empty"
    file.write_text("mine")
    folder.mkdir(), empty.mkdir()
    (folder / "chapter.txt").write_text("mine")
    for taken in (file, folder):
        with pytest.raises(ValueError, match="exists and is not a saved estimator"):
            fitted().save(taken)
    assert (folder / "chapter.txt").read_text() == file.read_text() == "mine"
    fitted().save(empty)
    load(empty)


def test_nothing_there(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no saved estimator at .*estimator.json is missing"
    ):
        load(tmp_path / "nowhere")


def test_weights_missing(saved):
    (saved / "weights.safetensors").unlink()
    with pytest.raises(ValueError, match=r"incomplete: weights.safetensors is missing"):
        load(saved)


@pytest.mark.parametrize("part", ["estimator.json", "weights.safetensors"])
@pytest.mark.parametrize("left", [0, 5, 100, -1])
def test_truncated(saved, part, left):
    content = (saved / part).read_bytes().rstrip()
    (saved / part).write_bytes(content[:left])
    with pytest.raises(ValueError, match=f"{part} is corrupted"):
        load(saved)


def test_a_flipped_bit_in_the_weights(saved):
    content = bytearray((saved / "weights.safetensors").read_bytes())
    content[-3] ^= 64
    (saved / "weights.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"weights.safetensors is corrupted"):
        load(saved)


def test_weights_of_another_estimator(saved, tmp_path):
    fitted(random_state=1).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "weights.safetensors", saved)
    with pytest.raises(ValueError, match=r"not the file that estimator.json was written with"):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99, "tsformer": "7.0"}, "format 99 by tsformer 7.0; .* the newer version"),
        ({"format": 0}, "format 0 by tsformer"),
        ({"format": "2"}, "format '2' by tsformer"),
        ({"model": {}}, "is corrupted"),
        ({"class": "TSTransformerClasifier"}, "did you mean 'TSTransformerClassifier'"),
        ({"classes": 3}, "is corrupted"),
        ({"parameters": {"colour": "red"}}, "is corrupted"),
        ({"history": None}, "is corrupted"),
    ],
)
def test_a_json_file_that_makes_no_sense(saved, change, message):
    state = json.loads((saved / "estimator.json").read_text())
    (saved / "estimator.json").write_text(json.dumps(state | change))
    with pytest.raises(ValueError, match=message):
        load(saved)


@pytest.mark.parametrize("text", ["[]", "3", "{}", "not json", "\x00"])
def test_a_json_file_of_something_else(saved, text):
    (saved / "estimator.json").write_text(text)
    with pytest.raises(ValueError, match=r"estimator.json is corrupted"):
        load(saved)


# Replacing


def test_an_earlier_save_is_replaced(saved):
    clf = fitted("rope", random_state=5)
    clf.save(saved)
    assert_same(load(saved), clf)
    assert os.listdir(saved.parent) == ["clf"], "something was left behind"


@pytest.mark.parametrize("at_call", [1, 2])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_stop_while_renaming_leaves_the_old_one(saved, monkeypatch, at_call, error):
    old, calls = load(saved), []

    def stopped(*args, real=os.replace):
        calls.append(args)
        if len(calls) == at_call:
            raise error
        real(*args)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(error):
        fitted("rope").save(saved)
    assert len(calls) == at_call
    assert_same(load(saved), old)


def test_a_stop_while_writing_leaves_the_old_one(saved, monkeypatch):
    def full(*args):
        raise OSError("No space left on device")

    old = load(saved)
    monkeypatch.setattr(tsformer.persistence, "save_file", full)
    with pytest.raises(OSError, match="No space"):
        fitted("rope").save(saved)
    assert_same(load(saved), old)
    assert os.listdir(saved.parent) == ["clf"]


SAVES_AGAIN_AND_AGAIN = """
import numpy as np, torch; torch.set_num_threads(1)
from tsformer import TSTransformerClassifier
clf = TSTransformerClassifier(d_model=64, max_epochs=1, device='cpu')
clf.fit(np.random.default_rng(0).normal(size=(8, 12)), [0, 1] * 4)
while True:
    clf.save('model')
    print('saved', flush=True)
"""


@pytest.mark.processes
def test_a_kill_leaves_a_whole_model_or_none(tmp_path):
    """A process that saves again and again is killed at some moment, for real."""
    whole = 0
    for delay in (0.0, 0.004, 0.011, 0.019):
        with subprocess.Popen(
            [sys.executable, "-c", SAVES_AGAIN_AND_AGAIN],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            for _ in range(3):  # so that there was a model before the save that is interrupted
                assert process.stdout.readline() == "saved\n"
            time.sleep(delay)
            assert process.poll() is None, "it was still saving"
            process.kill()
        try:
            loaded = tsformer.load(tmp_path / "model")
        except FileNotFoundError:  # between the two renames
            continue
        whole += 1
        assert np.isfinite(loaded.predict_proba(np.zeros((1, 12)))).all()
    assert whole >= 2, "the moment between the renames is short"
