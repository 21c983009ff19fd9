"""Starting from pretrained weights: copied and randomly initialised layers, and training."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from small_estimators import SMALL, Raises, convolutions, ensemble

import tsformer
from tsformer import TSTransformerClassifier, TSTransformerEncoder, TSTransformerRegressor

PARTS = ("stem", "encoding", "blocks", "norm")


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    """24 series of 30 steps and two channels in two classes."""
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    speed = np.where(y, 0.4, 0.8)[:, None, None]
    phase = rng.uniform(0, 6, size=(24, 2, 1))
    return np.sin(phase + speed * np.arange(30)) + 0.1 * rng.normal(size=(24, 2, 30)), y


@pytest.fixture(scope="module")
def encoder(data) -> TSTransformerEncoder:
    return TSTransformerEncoder(**SMALL).fit(data[0])


def backbone(estimator) -> dict[str, torch.Tensor]:
    """Return the state of all copied layers, averages of batch norms included."""
    state = estimator.model_.state_dict()
    return {name: each.clone() for name, each in state.items() if name.partition(".")[0] in PARTS}


def start(estimator, X, y):
    """Return the estimator as it starts: all it does before the first step."""
    twin = clone(estimator)
    twin._prepare(X, y)
    return twin


def equal(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_all_but_the_head_is_taken_over_from_a_fit_and_from_a_folder(encoder, data, tmp_path):
    encoder.save(tmp_path / "encoder")
    plain = start(TSTransformerClassifier(**SMALL), *data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # all fits
        for source in (encoder, tmp_path / "encoder", str(tmp_path / "encoder")):
            for cls in (TSTransformerClassifier, TSTransformerRegressor):
                options = {"views": "auto", "stem_params": {"n_residual": 1}}
                options = options if cls is TSTransformerRegressor else {}
                started = start(cls(**SMALL, **options, init_from=source), *data)
                assert equal(backbone(started), backbone(encoder))
    started = start(TSTransformerClassifier(**SMALL, init_from=encoder), *data)
    for name in ("head.weight", "head_norm.weight"):
        assert torch.equal(started.model_.state_dict()[name], plain.model_.state_dict()[name])
    assert not equal(backbone(plain), backbone(encoder))


def test_the_source_is_left_as_it_was(encoder, data):
    before = backbone(encoder)
    clf = TSTransformerClassifier(**SMALL, init_from=encoder).fit(*data)
    assert equal(backbone(encoder), before)
    assert not equal(backbone(clf), before)


@pytest.mark.parametrize(
    ("changed", "message", "kept"),
    [
        ({}, r"stem.first.branches.0.weight \(\(2, 4, 9\) in place of \(2, 6, 9\)\)", "blocks"),
        ({"encoding": "tape"}, r"at random: encoding \(another encoding\)", "stem"),
        ({"stem": "linear"}, r"at random: stem \(another stem\)", "encoding"),
        ({"n_layers": 2}, r"blocks.1.attention.qkv.weight \(missing\)", "stem"),
        ({"d_ff": 5}, r"blocks.0.feed_forward.0.weight \(\(16, 8\) in place of \(5, 8\)\)", "stem"),
    ],
)
def test_what_does_not_fit_is_drawn_anew_and_listed(changed, message, kept, encoder, data):
    X, y = data
    if not changed:
        X = np.concatenate([X, X[:, :1]], axis=1)
    clf = TSTransformerClassifier(**SMALL | changed)
    plain = start(clf, X, y)
    with pytest.warns(UserWarning, match=message) as caught:
        started = start(clf.set_params(init_from=encoder), X, y)
    assert [each.filename for each in caught] == [__file__]
    theirs, own, anew = (each.model_.state_dict() for each in (encoder, started, plain))
    fits = {
        name
        for name in own
        if name in theirs and own[name].shape == theirs[name].shape and name.startswith(PARTS)
    }
    redrawn = changed.keys() & {"encoding", "stem"}
    for name, tensor in own.items():
        taken = name in fits and name.partition(".")[0] not in redrawn
        assert torch.equal(tensor, (theirs if taken else anew)[name]), name
    assert any(name.startswith(kept) for name in fits)


@pytest.mark.parametrize(
    ("changed", "other"),
    [
        ({"scaling": "series"}, "scaling"),
        ({"view_params": {"scale": 0.5}}, "view_params"),
        ({"stem_params": {"norm": "layer"}}, "norm"),
        ({"stem_params": {"strides": (1, 2), "downsampling": "mean"}}, "downsampling"),
    ],
)
def test_weights_of_another_meaning_are_drawn_anew_whatever_their_shapes(changed, other, data):
    strides = {"strides": (1, 2)} if "strides" in str(changed) else {}
    source = TSTransformerEncoder(**SMALL, stem_params=strides).fit(data[0])
    clf = TSTransformerClassifier(**SMALL | changed)
    plain = backbone(start(clf, *data))
    with pytest.warns(UserWarning, match=rf"at random: stem \(another {other}\)$") as caught:
        started = backbone(start(clf.set_params(init_from=source), *data))
    assert len(caught) == 1
    for name, tensor in started.items():
        expected = plain if name.startswith("stem.") else backbone(source)
        assert torch.equal(tensor, expected[name]), name


def test_other_gaps_flag_other_channels(data):
    X, y = data
    gaps = [X.copy(), X.copy()]
    for channel, each in enumerate(gaps):
        each[:, channel, 5] = np.nan
    source = TSTransformerEncoder(**SMALL).fit(gaps[0])
    clf = TSTransformerClassifier(**SMALL, init_from=source)
    with pytest.warns(UserWarning, match=r"at random: stem \(another set of channels with gaps\)"):
        start(clf, gaps[1], y)


def test_layers_of_the_source_alone_are_listed(data):
    source = TSTransformerEncoder(**SMALL, stem_params={"n_residual": 1}).fit(data[0])
    clf = TSTransformerClassifier(**SMALL, stem_params={"n_residual": 0}, init_from=source)
    with pytest.warns(UserWarning, match=r"stem.residual.0.branches.0.weight \(of init_from alone"):
        start(clf, *data)


def test_other_strides_are_said_and_weights_kept(data):
    """The strides follow from the longest series: pretraining on longer ones is no mistake."""
    X, y = data
    skips = {"downsampling": "stride"}
    source = TSTransformerEncoder(**SMALL, stem_params=skips).fit(np.tile(X, 5))
    clf = TSTransformerClassifier(**SMALL, stem_params=skips)
    with pytest.warns(UserWarning, match=r"has strides \(1, 2\), and this stem \(1, 1\)") as caught:
        started = start(clf.set_params(init_from=source), X, y)
    assert len(caught) == 1
    assert equal(backbone(started), backbone(source))
    clf.set_params(stem_params={**skips, "strides": (1, 2)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(clf, X, y)


def test_nothing_that_fits_is_an_error(encoder, data):
    clf = TSTransformerClassifier(**SMALL | {"d_model": 16}, init_from=encoder)
    with pytest.raises(ValueError, match=r"no block of init_from fits: it has d_model=8, .*16"):
        clf.fit(*data)
    assert not hasattr(clf, "models_")


def test_codes_of_another_vocabulary_are_drawn_anew():
    codes = np.random.default_rng(0).integers(5, size=(12, 1, 20)).astype(float)
    y = np.arange(12) % 2
    small = {**SMALL, "stem": "embedding"}
    encoder = TSTransformerEncoder(
        **small, objective="contrastive", objective_params={"sigma": 0}
    ).fit(codes)
    clf = TSTransformerClassifier(**small, init_from=encoder)
    assert equal(backbone(start(clf, codes, y)), backbone(encoder))
    with pytest.warns(UserWarning, match=r"stem \(another meaning of the codes\)"):
        start(clf, codes + 1, y)


def test_a_frozen_backbone_embeds_as_the_encoder_does(encoder, data):
    X, y = data
    clf = TSTransformerClassifier(**SMALL | {"max_epochs": 4}, init_from=encoder, freeze="backbone")
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.transform(X), encoder.transform(X))
    assert not torch.equal(clf.model_.head.weight, start(clf, X, y).model_.head.weight), (
        "the head is trained"
    )


def test_what_is_drawn_anew_is_trained_in_a_frozen_backbone(encoder, data):
    X, y = data
    clf = TSTransformerClassifier(**SMALL, encoding="tape+erpe", init_from=encoder)
    clf.set_params(freeze="backbone")
    with pytest.warns(UserWarning, match="encoding"):
        before = start(clf, X, y).model_.state_dict()
    with pytest.warns(UserWarning, match="encoding"):
        after = clf.fit(X, y).model_.state_dict()
    moved = {name.partition(".")[0] for name in after if not torch.equal(before[name], after[name])}
    assert moved == {"encoding", "head", "head_norm"}


def test_the_head_goes_first_and_the_rest_follows_slowly(encoder, data):
    assert TSTransformerClassifier().pretrained_lr_scale == 1.0
    clf = TSTransformerClassifier(
        **SMALL, init_from=encoder, n_epochs_frozen=1, pretrained_lr_scale=0.1
    )
    plans = clone(clf)._prepare(*data).plans
    assert plans[0].pretrained.n_epochs_frozen == 1
    assert plans[0].pretrained.lr_scale == 0.1
    names = {name for name in backbone(encoder) if "running" not in name and "num_" not in name}
    assert plans[0].pretrained.names == names
    assert not equal(backbone(clf.fit(*data)), backbone(encoder))


def test_a_clone_keeps_its_source(encoder, data):
    clf = TSTransformerClassifier(**SMALL, init_from=encoder, freeze="backbone")
    assert clone(clf).init_from is encoder
    assert clone(clone(clf)).get_params(deep=False) == clf.get_params(deep=False)
    frozen = TSTransformerClassifier(**SMALL, init_from=FrozenEstimator(encoder))
    assert equal(backbone(start(frozen, *data)), backbone(encoder))


def test_an_unfitted_encoder_is_pretrained_inside_the_fold(data):
    X, y = data
    seen: list[int] = []

    class Counting(TSTransformerEncoder):
        def fit(self, X, y=None, **options):
            seen.append(len(X))
            return super().fit(X, y, **options)

    source = Counting(**SMALL | {"random_state": None})
    clf = TSTransformerClassifier(**SMALL, init_from=source, freeze="backbone")
    clone(clf).fit(X[:16], y[:16])
    assert seen == [16]
    assert not hasattr(source, "models_")
    # The seed of the classifier decides its seed.
    one, two = (clone(clf).fit(X, y).transform(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    fitted = TSTransformerEncoder(**SMALL).fit(X)
    clf.set_params(init_from=TSTransformerEncoder(**SMALL))
    np.testing.assert_array_equal(clf.fit(X, y).transform(X), fitted.transform(X))


def test_members_start_from_members(data):
    X, y = data
    pair = TSTransformerEncoder(**SMALL, n_estimators=2).fit(X)
    clf = TSTransformerClassifier(**SMALL, n_estimators=3, init_from=pair, freeze="backbone")
    embedded = clf.fit(X, y).transform(X).reshape(len(X), 3, 8)
    theirs = pair.transform(X).reshape(len(X), 2, 8)
    np.testing.assert_array_equal(embedded, theirs[:, [0, 1, 0]])


def test_a_saved_model_has_its_weights_and_not_its_source(encoder, data, tmp_path):
    X, y = data
    clf = TSTransformerClassifier(**SMALL, init_from=encoder).fit(X, y)
    clf.save(tmp_path / "model")
    loaded = tsformer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert loaded.init_from is None
    # A saved classifier is a source as well, for other classes too.
    other = TSTransformerClassifier(**SMALL, init_from=tmp_path / "model")
    started = start(other, X, np.arange(24) % 3)
    assert equal(backbone(started), backbone(clf))


@pytest.mark.parametrize("frozen", [{"freeze": "backbone"}, {"n_epochs_frozen": 1}])
def test_a_saved_model_that_was_frozen_can_be_fitted_again(frozen, encoder, data, tmp_path):
    X, y = data
    clf = TSTransformerClassifier(**SMALL, init_from=encoder, **frozen).fit(X, y)
    clf.save(tmp_path / "model")
    loaded = tsformer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    plain = TSTransformerClassifier(**SMALL).fit(X, y)
    np.testing.assert_array_equal(loaded.fit(X, y).predict_proba(X), plain.predict_proba(X))


def test_a_saved_ensemble_that_was_frozen_can_be_fitted_again(encoder, data, tmp_path):
    frozen = ensemble(transformer={"init_from": encoder, "freeze": "backbone"})
    frozen.fit(*data).save(tmp_path / "model")
    loaded = tsformer.load(tmp_path / "model").fit(*data)
    assert loaded.transformer_params["freeze"] is None


def test_what_unlabelled_series_pretrain_is_frozen_after_loading_too(data, tmp_path):
    X, y = data
    known = np.where(np.arange(24) % 3, y, -1)
    clf = TSTransformerClassifier(**SMALL, unlabelled="use", freeze="backbone").fit(X, known)
    clf.save(tmp_path / "model")
    loaded = tsformer.load(tmp_path / "model")
    assert loaded.freeze == "backbone"
    np.testing.assert_array_equal(loaded.fit(X, known).predict_proba(X), clf.predict_proba(X))


def test_two_ways_to_freeze_are_one_too_many(encoder, data):
    clf = TSTransformerClassifier(**SMALL, init_from=encoder, freeze="backbone", n_epochs_frozen=1)
    with pytest.raises(ValueError, match="freezes all epochs, and n_epochs_frozen=1 only"):
        clf.fit(*data)


def test_an_ensemble_with_convolutions_is_no_source(data, tmp_path):
    X, y = data
    convolutions().fit(X, y).save(tmp_path / "model")
    clf = TSTransformerClassifier(**SMALL, init_from=tmp_path / "model")
    with pytest.raises(ValueError, match="a saved RandomConvolutionClassifier, which has no trans"):
        clf.fit(X, y)


def test_freezing_for_all_epochs_is_said(encoder, data):
    params = SMALL | {"max_epochs": 2, "init_from": encoder}
    frozen = TSTransformerClassifier(**params, n_epochs_frozen=2)
    with pytest.warns(UserWarning, match="n_epochs_frozen=2 covers all 2 epochs") as caught:
        frozen.fit(*data)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TSTransformerClassifier(**params, n_epochs_frozen=1).fit(*data)
        TSTransformerClassifier(**params, freeze="backbone").fit(*data)


def test_parameters_of_a_fitted_source_stay_as_they_are(encoder, data):
    clf = TSTransformerClassifier(**SMALL, init_from=encoder)
    with pytest.raises(ValueError, match=r"init_from__d_model'.* is fitted, and the change"):
        clone(clf).set_params(init_from__d_model=16)
    assert encoder.d_model == 8
    search = GridSearchCV(clf, {"init_from__objective": ["masked", "contrastive"]}, cv=2)
    with pytest.raises(ValueError, match=r"clone\(encoder\)"):
        search.fit(*data)
    clf.set_params(init_from=clone(encoder), init_from__max_epochs=1)
    assert clf.init_from.max_epochs == 1
    assert encoder.max_epochs == 2
    clf.set_params(init_from__max_epochs=3)
    with pytest.raises(ValueError, match=r"init_from__max_epochs'.* is fitted, and"):
        clf.set_params(init_from=encoder, init_from__max_epochs=3)
    assert clf.init_from is not encoder


@pytest.mark.parametrize("checkpoints", [False, True])
def test_pretraining_that_is_interrupted_keeps_nothing_and_says_so(checkpoints, data, tmp_path):
    folder = tmp_path / "checkpoints"
    params = {"checkpoint_dir": folder, "checkpoint_minutes": 0} if checkpoints else {}
    source = TSTransformerEncoder(**SMALL, **params, callbacks=[Raises(KeyboardInterrupt())])
    clf = TSTransformerClassifier(**SMALL, init_from=source)
    said = f"; resume=True continues from a checkpoint in {folder}, if any" if checkpoints else ""
    with warnings.catch_warnings(record=True) as caught, pytest.raises(KeyboardInterrupt):
        clf.fit(*data)
    messages = [str(each.message) for each in caught]
    assert messages == [f"pretraining was interrupted, and its weights are lost{said}"]
    assert caught[0].filename == __file__
    assert not hasattr(clf, "models_")
