"""The files of a saved estimator: missing, spoilt, replaced, or not ours."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from small_estimators import X, Y, classifier

from tsformer import TSTransformerClassifier, load, persistence
from tsformer.persistence import check_destination, removed_on_failure, save_or_rescue


@cache
def fitted(encoding="lspe", random_state=0) -> TSTransformerClassifier:
    return classifier(encoding, max_epochs=1, random_state=random_state).fit(X, Y)


def assert_same(loaded: TSTransformerClassifier, clf: TSTransformerClassifier) -> None:
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def weights_in(folder: Path) -> Path:
    (file,) = folder.glob("weights-*.safetensors")
    return file


@pytest.fixture
def full_disk():
    """A block in which no file can grow beyond a thousand bytes: the system itself refuses."""

    @contextmanager
    def limited() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture
def path(tmp_path):
    return tmp_path / "models" / "clf"


@pytest.fixture
def saved(path):
    fitted().save(path)
    return path


def test_a_generator_cannot_be_saved(path):
    clf = fitted(random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match=r"RandomState, which cannot be .* random_state as an int"):
        clf.save(path)


def test_tensors_may_share_memory_and_lie_in_any_order(path):
    x = torch.arange(6.0).view(2, 3)
    persistence.write_folder(path, {}, given := {"x": x, "same": x, "turned": x.mT}, "\ud800")
    _, found = persistence.read_folder(path)
    assert all(found[name].equal(tensor) for name, tensor in given.items())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chapter.txt", "mine"),
        ("estimator.json", '{"name": "of another tool"}'),
        ("estimator.json", "not JSON"),
        ("estimator.json", "[]"),
        ("weights.safetensors", "of another tool"),
    ],
)
def test_what_is_something_else_is_not_overwritten(name, text, path):
    path.mkdir(parents=True)
    fitted().save(path)  # into an empty folder
    for file in path.iterdir():
        file.unlink()
    (path / name).write_text(text)
    before = contents(path)
    for taken in (path, path / name):
        with pytest.raises(ValueError, match="exists and is not a saved estimator"):
            fitted().save(taken)
    assert contents(path) == before


def test_files_that_are_missing(saved, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no saved estimator at .*r.json is missing"):
        load(tmp_path / "nowhere")
    weights_in(saved).unlink()
    with pytest.raises(ValueError, match=r"incomplete: weights-\w+.safetensors is missing"):
        load(saved)


@pytest.mark.parametrize("part", ["estimator.json", "weights-*.safetensors"])
@pytest.mark.parametrize("left", [0, 5, 100, -1])
def test_truncated(saved, part, left):
    (file,) = saved.glob(part)
    file.write_bytes(file.read_bytes().rstrip()[:left])
    with pytest.raises(ValueError, match=f"{file.name} is corrupted"):
        load(saved)


def test_a_flipped_bit_in_the_weights(saved):
    content = bytearray(weights_in(saved).read_bytes())
    content[-3] ^= 64
    weights_in(saved).write_bytes(content)
    with pytest.raises(ValueError, match=r"weights-\w+.safetensors is corrupted"):
        load(saved)


def test_weights_of_another_estimator(saved, tmp_path):
    fitted(random_state=1).save(tmp_path / "other")
    shutil.copy(weights_in(tmp_path / "other"), weights_in(saved))
    with pytest.raises(ValueError, match=r"not the file that estimator.json was written with"):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99, "tsformer": "7.0"}, "format 99 by tsformer 7.0; .* reads format 2: inst"),
        ({"format": 1, "tsformer": "0.1.0"}, "format 1 by tsformer 0.1.0; .* fit and save again"),
        ({"format": "2"}, "format '2' by tsformer"),
        ({"weights_sha256": "../../etc"}, "weights_sha256 is not a SHA-256 digest"),
        ({"class": "TSTransformerClasifier"}, "did you mean 'TSTransformerClassifier'"),
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


@pytest.mark.parametrize("strange", ["notes.txt", ".git/HEAD", "weights.bin", "weights-1/x"])
def test_what_save_did_not_write_makes_it_refuse(saved, strange):
    (saved / strange).parent.mkdir(exist_ok=True)
    (saved / strange).write_text("mine")
    before = contents(saved)
    for attempt in (fitted("rope").save, check_destination):
        with pytest.raises(ValueError, match=rf"more than .*: {strange.split('/')[0]}; .* move"):
            attempt(saved)
    assert contents(saved) == before


def test_an_edited_card_is_not_overwritten_and_never_read(saved):
    card = saved / "README.md"
    written = card.read_bytes()
    card.write_bytes(written.replace(b"\n", b"\r\n"))  # as git may check it out
    fitted("rope").save(saved)
    for content in (written.replace(b"## Scores", b"## My scores"), b"mine", b"\xff"):
        card.write_bytes(content)
        assert_same(load(saved), fitted("rope"))
        for attempt in (fitted().save, check_destination):
            with pytest.raises(ValueError, match=r"more than a saved estimator: README.md; .*move"):
                attempt(saved)
        assert card.read_bytes() == content
    card.unlink()
    fitted().save(saved)
    assert card.read_bytes() == written


def test_a_stop_before_the_card_leaves_the_new_model(saved, monkeypatch):
    old = (saved / "README.md").read_bytes()

    def stopped(self, target, real=Path.replace):
        if target.name == "README.md":
            raise OSError("stopped")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(OSError, match="stopped"):
        fitted("rope").save(saved)
    monkeypatch.undo()
    assert (saved / "README.md").read_bytes() == old
    assert_same(load(saved), fitted("rope"))
    fitted("rope").save(saved)
    digest = json.loads((saved / "estimator.json").read_text())["weights_sha256"]
    assert digest[:16] in (saved / "README.md").read_text()


def test_a_link_is_followed(saved, tmp_path):
    link = tmp_path / "newest"
    link.symlink_to(saved)
    clf = fitted("rope", random_state=5)
    clf.save(link)
    assert link.is_symlink()
    assert_same(load(saved), clf)
    link.unlink()
    link.symlink_to(tmp_path / "not yet")
    clf.save(link)
    assert_same(load(tmp_path / "not yet"), clf)
    assert sorted(os.listdir(tmp_path)) == ["models", "newest", "not yet"]


@pytest.mark.parametrize("at_call", [1, 2])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_stop_while_renaming_leaves_the_old_one(saved, monkeypatch, at_call, error):
    old, calls = load(saved), []

    def stopped(*args, real=Path.replace):
        calls.append(args)
        if len(calls) == at_call:
            raise error
        return real(*args)

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(error):
        fitted("rope").save(saved)
    monkeypatch.undo()
    assert len(calls) == at_call
    assert_same(load(saved), old)
    fitted("rope").save(saved)


def test_a_full_disk_leaves_the_old_one(saved, full_disk):
    old = load(saved)
    with full_disk(), pytest.raises(OSError, match="File too large"):
        fitted("rope").save(saved)
    assert_same(load(saved), old)
    assert len(os.listdir(saved)) == 3
    assert os.listdir(saved.parent) == ["clf"]


@pytest.mark.parametrize("reads", [True, False], ids=["load", "save"])
def test_another_process_saves_at_this_moment(saved, monkeypatch, reads):
    """While this one reads the old weights, or before it removes them."""
    clf, name = fitted("rope"), "_weights_file" if reads else "_leftovers"
    real = getattr(persistence, name)

    def interrupted(*args, **options):
        monkeypatch.undo()
        (clf if reads else fitted()).save(saved)
        return real(*args, **options)

    monkeypatch.setattr(persistence, name, interrupted)
    if reads:
        assert_same(load(saved), clf)
    else:
        clf.save(saved)
        assert_same(load(saved), fitted())


def test_what_a_killed_process_left_is_removed_in_time(saved):
    left = ["weights-0123456789abcdef.safetensors", ".estimator.json.0123456789ab"]
    left += [".README.md.0123456789ab"]
    for name in left:
        (saved / name).touch()
    fitted().save(saved)
    assert set(left) < set(os.listdir(saved)), "another process may be saving at this moment"
    for name in left:
        os.utime(saved / name, (0, 0))
    fitted().save(saved)
    assert len(os.listdir(saved)) == 3


# Before a long fit, and after it


def test_a_place_for_a_model_is_tried(path, saved, tmp_path):
    for place in (tmp_path / "new" / "model", saved):
        check_destination(place)
    assert not list((tmp_path / "new" / "model").iterdir())
    load(saved)


def test_a_place_that_cannot_be_written_is_refused_before(tmp_path, full_disk):
    with pytest.raises(OSError, match=r"a model cannot be saved there: .*'/proc/model'"):
        check_destination("/proc/model")
    with full_disk(), pytest.raises(OSError, match=r"cannot be saved there: File too large"):
        check_destination(tmp_path / "model")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for taken in ("file", "link"):
        with pytest.raises(ValueError, match="exists and is not a saved estimator"):
            check_destination(tmp_path / taken)


def test_folders_that_were_made_for_nothing_are_removed(saved, tmp_path):
    (tmp_path / "mine").mkdir()

    def interrupted(place):
        with removed_on_failure(place):
            assert place.is_dir()
            raise KeyboardInterrupt

    def fails_later(place):
        with removed_on_failure(place):
            fitted().save(place)
            raise RuntimeError

    for place in (tmp_path / "new" / "model", tmp_path / "mine" / "model", saved):
        with pytest.raises(KeyboardInterrupt):
            interrupted(place)
        assert place.exists() == (place == saved)
    assert (tmp_path / "mine").is_dir()
    assert not (tmp_path / "new").exists()
    load(saved)
    with pytest.raises(RuntimeError):
        fails_later(tmp_path / "model")
    load(tmp_path / "model")
    with removed_on_failure(tmp_path / "kept"):
        pass
    assert (tmp_path / "kept").is_dir()


def test_a_model_that_cannot_be_saved_there_is_saved_elsewhere(tmp_path, monkeypatch):
    clf = fitted()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (tmp_path / "taken").write_text("mine")
    for here, path, beside in (
        (tmp_path, tmp_path / "taken", tmp_path),
        (tmp_path, Path("/proc/model"), tmp_path),
        (Path("/proc"), Path("/proc/model"), temporary),
    ):
        monkeypatch.chdir(here)
        with pytest.raises(OSError, match=r"could not be saved in .* it is saved in ") as raised:
            save_or_rescue(clf.save, path)
        (rescued,) = beside.glob(f"{path.name}-*")
        assert str(raised.value).endswith(f"saved in {rescued}")
        assert_same(load(rescued), clf)
    assert (tmp_path / "taken").read_text() == "mine"
    with pytest.raises(ValueError, match="as JSON"):
        save_or_rescue(fitted(random_state=np.random.RandomState(0)).save, tmp_path / "never")
    assert not list(tmp_path.rglob("never-*"))


SAVING = """
import os, sys
import numpy as np, torch; torch.set_num_threads(1)
from tsformer import TSTransformerClassifier
X, y = np.random.default_rng(0).normal(size=(8, 12)), [0, 1] * 4
one, other = (
    TSTransformerClassifier(d_model=64, max_epochs=1, random_state=seed, device="cpu").fit(X, y)
    for seed in range(2)
)
one.save("model")
for _ in sys.stdin:
    child = os.fork()
    while child == 0:
        other.save("model")
        one.save("model")
    print(child, flush=True)
    os.waitpid(child, 0)
"""


@pytest.mark.processes
def test_a_kill_leaves_a_whole_model(tmp_path):
    """A process that saves again and again is killed at some moments, for real."""
    with subprocess.Popen(
        [sys.executable, "-c", SAVING], cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        for delay in (0.05, 0.063, 0.1, 0.128):
            print("save", file=process.stdin, flush=True)
            child = int(process.stdout.readline())
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            loaded = load(tmp_path / "model")
            assert np.isfinite(loaded.predict_proba(np.zeros((1, 12)))).all()
