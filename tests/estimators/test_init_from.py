"""Starting from pretrained weights: copied and randomly initialised layers, and training."""

import copy
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_estimators import Raises, X, Y, classifier, convolutions, encoder, regressor

from tsformer import TSTransformerEncoder, load
from tsformer.training import Callback

PARTS = ("stem", "encoding", "blocks", "norm")


@pytest.fixture(scope="module")
def source() -> TSTransformerEncoder:
    return encoder().fit(X)


def backbone(estimator) -> dict[str, torch.Tensor]:
    """Return the state of all copied layers, averages of batch norms included."""
    state = estimator.model_.state_dict()
    return {name: t.clone() for name, t in state.items() if name.partition(".")[0] in PARTS}


class Start(Callback):
    """Keeps the model and the plan of a training run, which it ends before the first step."""

    def on_train_begin(self, state):
        self.model_, self.plan = state.model, state.plan
        raise LookupError


def start(estimator, series=X, y=Y) -> Start:
    """Begin a training run of a copy."""
    begun = Start()
    with suppress(LookupError):
        copy.deepcopy(estimator).set_params(callbacks=[begun]).fit(series, y)
    return begun


def equal(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_backbone_copied_from_fit_and_folder(source, tmp_path):
    source.save(tmp_path / "encoder")
    before, plain = backbone(source), start(classifier())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # all fits
        for origin in (source, tmp_path / "encoder", str(tmp_path / "encoder")):
            of_numbers = regressor(views="auto", stem_params={"n_residual": 1}, init_from=origin)
            started = start(classifier(init_from=origin))
            for estimator in (started, start(of_numbers)):
                assert equal(backbone(estimator), before)
        listed = {"stem_params": {"dilations": (1, 3)}}  # in a file, a tuple is a list
        encoder(**listed).fit(X).save(tmp_path / "encoder")
        start(classifier(**listed, init_from=tmp_path / "encoder"))
    head = "head.weight"
    assert torch.equal(started.model_.state_dict()[head], plain.model_.state_dict()[head])
    trained = classifier(init_from=source).fit(X, Y)
    assert equal(backbone(source), before), "the source is left as it was"
    assert not equal(backbone(trained), before)


HALF = {"strides": (2, 1)}
STRIDED = HALF | {"downsampling": "stride"}
GAPS = X.copy()
GAPS[:, 0, 5] = np.nan
OTHER_GAPS = GAPS[:, ::-1]
CODES = np.random.default_rng(0).integers(5, size=(16, 1, 20)).astype(float)
OF_CODES = {"stem": "embedding"}
#: Options of the source and of the classifier, the layer that is initialised despite its shapes,
#: and the series of both, unless both read `X`.
OTHERS = [
    ({}, {"encoding": "tape"}, "encoding"),
    ({}, {"stem": "linear"}, "stem"),
    ({}, {"n_layers": 2}, None),
    ({}, {"d_ff": 5}, None),
    ({}, {"stem_params": {"n_residual": 0}}, None),
    ({}, {"encoding_params": {"apply_to": "sum"}}, "encoding"),
    ({"n_layers": 0}, {"n_layers": 0, "n_heads": 4}, "encoding"),
    ({}, {"scaling": "series"}, "stem"),
    ({}, {"views": "values"}, None),
    ({"views": "difference"}, {"views": "values"}, "stem"),
    ({}, {"view_params": {"scale": 0.5}}, "stem"),
    ({}, {"stem_params": {"dilations": (1, 3)}}, "stem"),
    ({"stem_params": HALF}, {"stem_params": STRIDED}, "stem"),
    ({}, {}, "stem", GAPS, OTHER_GAPS),
    (
        OF_CODES | {"objective": "contrastive", "objective_params": {"sigma": 0}},
        *(OF_CODES, "stem", CODES, CODES + 1),
    ),
]


def test_other_channel_order_warns():
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    clf = classifier(init_from=encoder().fit(frames))
    with pytest.warns(UserWarning):
        start(clf, [x[["b", "a"]] for x in frames])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(clf, frames)
        start(clf, [x.set_axis(["c", "d"], axis=1) for x in frames])


def test_other_strides_copied_with_warning():
    """The strides follow from the longest series: pretraining on longer ones is no mistake."""
    skips = {"downsampling": "stride"}
    source = encoder(stem_params=skips).fit(np.tile(X, 6))
    clf = classifier(stem_params=skips, init_from=source)
    with pytest.warns(UserWarning) as caught:
        started = start(clf)
    assert len(caught) == 1
    assert equal(backbone(started), backbone(source))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(clf.set_params(stem_params=skips | {"strides": (1, 2)}))


def test_freeze_and_lr_scale(source):
    clf = classifier("tape+erpe", init_from=source, freeze="backbone")
    with pytest.warns(UserWarning):
        before, after = start(clf).model_.state_dict(), clf.fit(X, Y).model_.state_dict()
    moved = {name.partition(".")[0] for name in after if not torch.equal(before[name], after[name])}
    assert moved == {"encoding", "head", "head_norm"}, "what was initialised"
    clf = classifier(init_from=source, freeze="backbone", warm_start=True)
    assert equal(backbone(clf.fit(X, Y).fit(X, Y)), backbone(source))
    assert all(parameter.requires_grad for parameter in clf.model_.parameters())
    clf = classifier(warm_start=True).fit(X, Y).set_params(init_from=source, freeze="backbone")
    with pytest.raises(ValueError):
        clf.fit(X, Y)
    clf = classifier(init_from=source, pretrained_lr_scale=0.1, warm_start=True)
    for estimator in (clone(clf), clf.fit(X, Y)):
        pretrained = start(estimator).plan.pretrained
        assert (pretrained.frozen, pretrained.lr_scale) == (False, 0.1)


def test_unfitted_encoder_pretrained_in_fit(source):
    unfitted = encoder(random_state=None)
    clf = classifier(init_from=unfitted, freeze="backbone")
    # The seed of the classifier decides its seed.
    first, repeated, reseeded = (
        clone(clf).set_params(random_state=seed).fit(X, Y).transform(X) for seed in (0, 0, 1)
    )
    assert not hasattr(unfitted, "models_")
    np.testing.assert_array_equal(first, repeated)
    assert not np.array_equal(first, reseeded)
    clf.set_params(init_from=encoder())
    np.testing.assert_array_equal(clf.fit(X, Y).transform(X), source.transform(X))


def test_members_start_from_members():
    pair = encoder(n_estimators=2).fit(X)
    clf = classifier(n_estimators=3, init_from=pair, freeze="backbone").fit(X, Y)
    embedded, theirs = clf.transform(X).reshape(16, 3, 8), pair.transform(X).reshape(16, 2, 8)
    np.testing.assert_array_equal(embedded, theirs[:, [0, 1, 0]])


def test_save_without_source(source, tmp_path):
    clf = classifier(init_from=source, freeze="backbone").fit(X, Y)
    clf.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert loaded.init_from is None
    # It is a source as well, for other classes too.
    started = start(classifier(init_from=tmp_path / "model"), X, np.arange(16) % 3)
    assert equal(backbone(started), backbone(clf))
    plain = classifier().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(loaded.fit(X, Y).predict_proba(X), plain)


def test_init_from_refused(source, tmp_path):
    convolutions().fit(X, Y).save(tmp_path / "model")
    for option, value, error in (
        *(("d_model", 16, ValueError), ("n_heads", 4, ValueError)),
        *(("norm_first", False, ValueError), ("init_from", tmp_path / "model", TypeError)),
    ):
        clf = classifier(**{"init_from": source, option: value})
        with pytest.raises(error):
            clf.fit(X, Y)
        assert not hasattr(clf, "models_")


def test_set_params_refuses_fitted_source(source):
    clf = classifier(init_from=source)
    with pytest.raises(ValueError):
        clone(clf).set_params(init_from__d_model=16)
    clf.set_params(init_from=clone(source), init_from__max_epochs=1)
    assert (clf.init_from.max_epochs, source.max_epochs) == (1, 2)


def test_interrupted_pretraining_leaves_unfitted(tmp_path):
    kept = {"checkpoint_dir": tmp_path, "checkpoint_minutes": 0}
    clf = classifier(init_from=encoder(**kept, callbacks=[Raises(KeyboardInterrupt())]))
    with (
        pytest.warns(UserWarning) as caught,
        pytest.raises(KeyboardInterrupt),
    ):
        clf.fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert not hasattr(clf, "models_")


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case[1]}")
def test_other_shapes_and_meanings_initialised_with_warning(case):
    of_source, changed, redrawn, *series = case
    theirs, ours = series or (X, X)
    source, clf = encoder(**of_source).fit(theirs), classifier(**changed)
    anew, theirs = start(clf, ours).model_.state_dict(), backbone(source)
    with pytest.warns(UserWarning) as caught:
        state = start(clf.set_params(init_from=source), ours).model_.state_dict()
    assert [warning.filename for warning in caught] == [__file__]
    fits = {name for name in theirs if name in state and state[name].shape == theirs[name].shape}
    taken = {name for name in fits if name.partition(".")[0] != redrawn}
    assert taken
    for name, tensor in state.items():
        assert torch.equal(tensor, (theirs if name in taken else anew)[name]), name
