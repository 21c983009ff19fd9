"""Starting from pretrained weights: copied and randomly initialised layers, and training."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from small_estimators import Raises, X, Y, classifier, convolutions, encoder, ensemble, regressor

from tsformer import TSTransformerEncoder, load

PARTS = ("stem", "encoding", "blocks", "norm")


@pytest.fixture(scope="module")
def source() -> TSTransformerEncoder:
    return encoder().fit(X)


def backbone(estimator) -> dict[str, torch.Tensor]:
    """Return the state of all copied layers, averages of batch norms included."""
    state = estimator.model_.state_dict()
    return {name: each.clone() for name, each in state.items() if name.partition(".")[0] in PARTS}


def start(estimator, series=X, y=Y):
    """Return the estimator as it starts: all it does before the first step."""
    twin = clone(estimator)
    twin._prepare(series, y)
    return twin


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
            for each in (started, start(of_numbers)):
                assert equal(backbone(each), before)
        listed = {"stem_params": {"dilations": (1, 3)}}  # in a file, a tuple is a list
        encoder(**listed).fit(X).save(tmp_path / "encoder")
        start(classifier(**listed, init_from=tmp_path / "encoder"))
    for name in ("head.weight", "head_norm.weight"):
        assert torch.equal(started.model_.state_dict()[name], plain.model_.state_dict()[name])
    assert not equal(backbone(plain), before)
    trained = classifier(init_from=source).fit(X, Y)
    assert equal(backbone(source), before), "the source is left as it was"
    assert not equal(backbone(trained), before)


STRIDES, HALF = {"strides": (1, 2)}, {"strides": (2, 1)}
#: Options of the source and of the classifier, the warning, and what is drawn anew in any shape.
OTHERS = [
    ({}, {"encoding": "tape"}, r"at random: encoding \(another encoding\)", "encoding"),
    ({}, {"stem": "linear"}, r"at random: stem \(another stem\)", "stem"),
    ({}, {"n_layers": 2}, r"blocks.1.attention.qkv.weight \(missing\)", None),
    ({}, {"d_ff": 5}, r"blocks.0.feed_forward.0.weight \(\(16, 8\) in place of \(5, 8\)\)", None),
    ({}, {"stem_params": {"n_residual": 0}}, r"stem.residual.0.\S+ \(of init_from alone", None),
    ({}, {"encoding_params": {"apply_to": "sum"}}, r"\(another encoding_params\)$", "encoding"),
    ({}, {"scaling": "series"}, r"at random: stem \(another scaling\)$", "stem"),
    ({}, {"views": "values"}, r"stem\.first\S+ \(\(2, 4, 9\) in place of \(2, 2, 9\)\)", None),
    ({}, {"view_params": {"scale": 0.5}}, r"at random: stem \(another view_params\)$", "stem"),
    ({}, {"stem_params": {"dilations": (1, 3)}}, r"at random: stem \(another dilations\)$", "stem"),
    (HALF, HALF | {"downsampling": "stride"}, r"stem \(another downsampling\)", "stem"),
]


@pytest.mark.parametrize(("of_source", "changed", "message", "redrawn"), OTHERS)
def test_other_shapes_initialised_and_listed(of_source, changed, message, redrawn):
    if of_source:
        of_source, changed = {"stem_params": of_source}, {"stem_params": changed}
    assert_taken(encoder(**of_source).fit(X), classifier(**changed), X, message, redrawn)


def assert_taken(source, clf, series, message: str, redrawn: str | None = None) -> None:
    """Check that what fits is copied, and that one warning lists what is drawn anew."""
    anew, theirs = start(clf, series).model_.state_dict(), backbone(source)
    with pytest.warns(UserWarning, match=message) as caught:
        own = start(clf.set_params(init_from=source), series).model_.state_dict()
    assert [each.filename for each in caught] == [__file__]
    fits = {name for name in theirs if name in own and own[name].shape == theirs[name].shape}
    taken = {name for name in fits if name.partition(".")[0] != redrawn}
    assert taken
    for name, tensor in own.items():
        assert torch.equal(tensor, (theirs if name in taken else anew)[name]), name


def test_other_channel_order_warns():
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    clf = classifier(init_from=encoder().fit(frames))
    with pytest.warns(UserWarning, match=r"\['a', 'b'\].*\['b', 'a'\]"):
        start(clf, [x[["b", "a"]] for x in frames])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(clf, frames)
        start(clf, [x.set_axis(["c", "d"], axis=1) for x in frames])


def test_same_shape_other_meaning_initialised():
    for part, own, other in (
        ("encoding", {"n_layers": 0}, {"n_heads": 4}),
        ("stem", {"views": "difference"}, {"views": "values"}),
    ):
        message = rf"{part} \(another {next(iter(other))}"
        assert_taken(encoder(**own).fit(X), classifier(**own | other), X, message, part)


def test_other_flags_initialised():
    gaps = [X.copy(), X.copy()]
    for channel, each in enumerate(gaps):
        each[:, channel, 5] = np.nan
    clf = classifier(init_from=encoder().fit(gaps[0]))
    with pytest.warns(UserWarning, match=r"stem \(another .*gaps"):
        start(clf, gaps[1])


def test_other_strides_copied_with_warning():
    """The strides follow from the longest series: pretraining on longer ones is no mistake."""
    skips = {"downsampling": "stride"}
    source = encoder(stem_params=skips).fit(np.tile(X, 6))
    clf = classifier(stem_params=skips, init_from=source)
    with pytest.warns(UserWarning, match=r"strides \(1, 2\).*\(1, 1\)") as caught:
        started = start(clf)
    assert len(caught) == 1
    assert equal(backbone(started), backbone(source))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(clf.set_params(stem_params=skips | STRIDES))


def test_other_vocabulary_initialised():
    codes = np.random.default_rng(0).integers(5, size=(16, 1, 20)).astype(float)
    own = {"objective": "contrastive", "objective_params": {"sigma": 0}}
    source = encoder(stem="embedding", **own).fit(codes)
    clf = classifier(stem="embedding", init_from=source)
    assert equal(backbone(start(clf, codes)), backbone(source))
    with pytest.warns(UserWarning, match=r"stem \(another .*codes"):
        start(clf, codes + 1)


def test_freeze_trains_initialised_weights(source):
    clf = classifier("tape+erpe", init_from=source, freeze="backbone")
    with pytest.warns(UserWarning, match="encoding"):
        before, after = start(clf).model_.state_dict(), clf.fit(X, Y).model_.state_dict()
    moved = {name.partition(".")[0] for name in after if not torch.equal(before[name], after[name])}
    assert moved == {"encoding", "head", "head_norm"}


def test_pretrained_lr_scale(source):
    clf = classifier(init_from=source, pretrained_lr_scale=0.1)
    pretrained = clone(clf)._prepare(X, Y).plans[0].pretrained
    assert (pretrained.frozen, pretrained.lr_scale) == (False, 0.1)
    names = {name for name in backbone(source) if "running" not in name and "num_" not in name}
    assert pretrained.names == names
    assert not equal(backbone(clf.fit(X, Y)), backbone(source))


def test_warm_start_keeps_freeze_and_scale(source):
    clf = classifier(init_from=source, freeze="backbone", warm_start=True)
    assert equal(backbone(clf.fit(X, Y).fit(X, Y)), backbone(source))
    slow = classifier(init_from=source, pretrained_lr_scale=0.1, warm_start=True)
    pretrained = slow.fit(X, Y)._prepare(X, Y).plans[0].pretrained
    assert (pretrained.frozen, pretrained.lr_scale) == (False, 0.1)
    clf = classifier(warm_start=True).fit(X, Y).set_params(init_from=source, freeze="backbone")
    with pytest.raises(ValueError, match="freeze='backbone'"):
        clf.fit(X, Y)


def test_unfitted_encoder_pretrained_in_fit(source):
    seen: list[int] = []

    class Counting(TSTransformerEncoder):
        def fit(self, X, y=None, **options):
            seen.append(len(X))
            return super().fit(X, y, **options)

    counting = Counting(**encoder(random_state=None).get_params(deep=False))
    clf = classifier(init_from=counting, freeze="backbone")
    clone(clf).fit(X[:12], Y[:12])
    assert seen == [12]
    assert not hasattr(counting, "models_")
    # The seed of the classifier decides its seed.
    one, two = (clone(clf).fit(X, Y).transform(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    other = clone(clf).set_params(random_state=1).fit(X, Y).transform(X)
    assert not np.array_equal(one, other)
    clf.set_params(init_from=encoder())
    np.testing.assert_array_equal(clf.fit(X, Y).transform(X), source.transform(X))


def test_members_start_from_members():
    pair = encoder(n_estimators=2).fit(X)
    clf = classifier(n_estimators=3, init_from=pair, freeze="backbone").fit(X, Y)
    embedded, theirs = clf.transform(X).reshape(16, 3, 8), pair.transform(X).reshape(16, 2, 8)
    np.testing.assert_array_equal(embedded, theirs[:, [0, 1, 0]])


@pytest.mark.parametrize("frozen", [{}, {"freeze": "backbone"}])
def test_save_without_source(frozen, source, tmp_path):
    clf = classifier(init_from=source, **frozen).fit(X, Y)
    clf.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert loaded.init_from is None
    # It is a source as well, for other classes too.
    started = start(classifier(init_from=tmp_path / "model"), X, np.arange(16) % 3)
    assert equal(backbone(started), backbone(clf))
    plain = classifier().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(loaded.fit(X, Y).predict_proba(X), plain)


def test_saved_ensemble_refits_unfrozen(source, tmp_path):
    ensemble(transformer={"init_from": source, "freeze": "backbone"}).fit(X, Y).save(tmp_path / "m")
    assert load(tmp_path / "m").fit(X, Y).transformer_params["freeze"] is None


def test_init_from_refused(source, tmp_path):
    convolutions().fit(X, Y).save(tmp_path / "model")
    for options, message in [
        ({"d_model": 16}, "d_model=8, .*16"),
        ({"n_heads": 4}, "n_heads=2, .*n_heads=4"),
        ({"norm_first": False}, "norm_first=True, .*False"),
        ({"init_from": tmp_path / "model"}, "RandomConvolutionClassifier"),
    ]:
        clf = classifier(**{"init_from": source} | options)
        with pytest.raises(ValueError, match=message):
            clf.fit(X, Y)
        assert not hasattr(clf, "models_")


def test_set_params_refuses_fitted_source(source):
    clf = classifier(init_from=source)
    with pytest.raises(ValueError, match="init_from__d_model"):
        clone(clf).set_params(init_from__d_model=16)
    assert source.d_model == 8
    search = GridSearchCV(clf, {"init_from__objective": ["masked", "contrastive"]}, cv=2)
    with pytest.raises(ValueError, match=r"clone\(encoder\)"):
        search.fit(X, Y)
    clf.set_params(init_from=clone(source), init_from__max_epochs=1)
    assert (clf.init_from.max_epochs, source.max_epochs) == (1, 2)
    clf.set_params(init_from__max_epochs=3)
    with pytest.raises(ValueError, match="init_from__max_epochs"):
        clf.set_params(init_from=source, init_from__max_epochs=3)
    assert clf.init_from is not source


@pytest.mark.parametrize("checkpoints", [False, True])
def test_interrupted_pretraining_leaves_unfitted(checkpoints, tmp_path):
    folder = tmp_path / "checkpoints"
    params = {"checkpoint_dir": folder, "checkpoint_minutes": 0} if checkpoints else {}
    clf = classifier(init_from=encoder(**params, callbacks=[Raises(KeyboardInterrupt())]))
    with warnings.catch_warnings(record=True) as caught, pytest.raises(KeyboardInterrupt):
        clf.fit(X, Y)
    (warning,) = caught
    assert "interrupted" in str(warning.message)
    assert (str(folder) in str(warning.message)) == checkpoints
    assert warning.filename == __file__
    assert not hasattr(clf, "models_")
