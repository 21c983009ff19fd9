"""The files of a saved estimator: missing, spoilt, replaced, or not ours."""

import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from process_settings import full_disk
from small_estimators import X, Y, classifier

from tsformer import TSTransformerClassifier, load
from tsformer.persistence import read_folder, removed_on_failure, save_or_rescue, write_folder


@cache
def fitted(encoding="lspe", random_state=0) -> TSTransformerClassifier:
    return classifier(encoding, max_epochs=1, random_state=random_state).fit(X, Y)


def assert_same(loaded: TSTransformerClassifier, clf: TSTransformerClassifier) -> None:
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def weights_in(folder: Path) -> Path:
    (file,) = folder.glob("weights-*.safetensors")
    return file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "models" / "clf"


@pytest.fixture
def saved(path):
    fitted().save(path)
    return path


def test_write_folder_shared_and_transposed_tensors(path):
    x = torch.arange(6.0).view(2, 3)
    write_folder(path, {}, tensors := {"x": x, "same": x, "turned": x.mT}, "\ud800")
    assert all(read_folder(path)[1][name].equal(tensor) for name, tensor in tensors.items())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_load_missing_file(saved, tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere")
    weights_in(saved).unlink()
    with pytest.raises(ValueError):
        load(saved)


@pytest.mark.parametrize("pattern", ["estimator.json", "weights-*.safetensors"])
@pytest.mark.parametrize("damage", [0, 100, -1, b"\xff", b"[]", b"{}"])
def test_load_refuses_damaged_file(saved, pattern, damage):
    """Cut, or replaced."""
    (file,) = saved.glob(pattern)
    content = file.read_bytes().rstrip()
    file.write_bytes(content[:damage] if isinstance(damage, int) else damage)
    with pytest.raises(ValueError):
        load(saved)


def test_load_refuses_weights_of_other_estimator(saved, tmp_path):
    fitted(random_state=1).save(tmp_path / "other")
    shutil.copy(weights_in(tmp_path / "other"), weights_in(saved))
    with pytest.raises(ValueError):
        load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"format": 99, "tsformer": "7.0"}, "format"), ({"format": "2"}, "format")),
        *(({"weights_sha256": digest}, "weights_sha256") for digest in ("../../etc", 3)),
        ({"class": "TSTransformerClasifier"}, "'TSTransformerClassifier'"),
        ({"class": "StreamingClassifier"}, "StreamingClassifier"),
    ],
)
def test_load_refuses_description(saved, change, message):
    state = json.loads((saved / "estimator.json").read_text())
    (saved / "estimator.json").write_text(json.dumps(state | change))
    with pytest.raises(ValueError, match=message):
        load(saved)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("notes.txt", "mine"), (".git/HEAD", "mine"), ("weights.safetensors", "mine")),
        *(("estimator.json", "not JSON"), ("estimator.json", '{"name": "of another tool"}')),
    ],
)
def test_save_keeps_other_files(name, text, saved):
    (saved / name).parent.mkdir(exist_ok=True)
    (saved / name).write_text(text)
    before = contents(saved)
    for target in (saved, saved / name):
        with pytest.raises(ValueError):
            fitted("rope").save(target)
    assert contents(saved) == before


def test_save_refuses_edited_card(saved):
    card = saved / "README.md"
    written = card.read_bytes()
    card.write_bytes(written.replace(b"\n", b"\r\n"))  # as git may check it out
    fitted("rope").save(saved)
    for content in (written.replace(b"## Scores", b"## My scores"), b"mine", b"\xff"):
        card.write_bytes(content)
        with pytest.raises(ValueError):
            fitted().save(saved)
        assert card.read_bytes() == content
    assert_same(load(saved), fitted("rope"))


def test_save_follows_link(saved, tmp_path):
    link = tmp_path / "newest"
    link.symlink_to(saved)
    fitted("rope").save(link)
    assert link.is_symlink()
    assert_same(load(saved), fitted("rope"))


@pytest.mark.parametrize("at_call", [1, 2, 3], ids=["weights", "description", "card"])
def test_save_stopped_at_rename_keeps_whole_model(saved, monkeypatch, at_call):
    calls = []

    def stopped(*args, real=Path.replace):
        calls.append(args)
        if len(calls) == at_call:
            raise KeyboardInterrupt
        return real(*args)

    (saved / ".estimator.json.0123456789ab").touch()  # of a killed process
    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        fitted("rope").save(saved)
    monkeypatch.undo()
    assert_same(load(saved), fitted("rope" if at_call == 3 else "lspe"))
    fitted("rope").save(saved)
    digest = json.loads((saved / "estimator.json").read_text())["weights_sha256"]
    assert digest[:16] in (saved / "README.md").read_text()


def test_save_on_full_disk_keeps_old_model(saved):
    with full_disk(), pytest.raises(OSError):
        fitted("rope").save(saved)
    assert_same(load(saved), fitted())
    assert len(os.listdir(saved)) == 3


def test_other_process_saves_while_this_one_loads(saved, monkeypatch):
    def interrupted(*args, real=Path.read_bytes):
        monkeypatch.undo()
        fitted("rope").save(saved)
        return real(*args)

    monkeypatch.setattr(Path, "read_bytes", interrupted)
    assert_same(load(saved), fitted("rope"))


def try_folder(folder: Path, error: type[BaseException] | None = None) -> None:
    with removed_on_failure(folder):
        assert folder.is_dir()
        if error is not None:
            raise error


def test_removed_on_failure_refuses_destination(saved, tmp_path):
    try_folder(saved)
    load(saved)
    with pytest.raises(OSError):
        try_folder(Path("/proc/model"))
    with full_disk(), pytest.raises(OSError):
        try_folder(tmp_path / "model")
    (saved / "notes.txt").touch()
    with pytest.raises(ValueError):
        try_folder(saved)


def test_removed_on_failure_removes_new_folders(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "new" / "model", tmp_path / "mine" / "model", saved):
        with pytest.raises(KeyboardInterrupt):
            try_folder(folder, KeyboardInterrupt)
        assert folder.exists() == (folder == saved)
    assert sorted(os.listdir(tmp_path)) == ["mine", "models"]
    load(saved)


def test_save_or_rescue_saves_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "taken").write_text("mine")
    for path, beside in (
        (tmp_path / "taken", tmp_path),
        (Path("/proc/model"), tmp_path / "temporary"),
    ):
        with pytest.raises(OSError, match="saved in"):
            save_or_rescue(fitted().save, path)
        (rescued,) = beside.glob(f"{path.name}-*")
        assert_same(load(rescued), fitted())
    assert (tmp_path / "taken").read_text() == "mine"
    with pytest.raises(ValueError):
        save_or_rescue(fitted(random_state=np.random.RandomState(0)).save, tmp_path / "never")
