"""Methods in a study: what they are called, what they resolve to, and which fits are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tsformer.studies import Study, Trial

NAMED = {"tsformer": {"d_model": 32}, "majority": {}, "minirocket": {"n_kernels": 84}}


def study(**options: Any) -> Study:
    return Study(**{"datasets": ("A",), "seeds": 2, "methods": NAMED, **options})


def test_encodings_come_first_and_methods_after_them():
    both = study(encodings=("none",))
    assert both.names == ("none", "tsformer", "majority", "minirocket")
    assert both.trials()[:3] == [
        Trial("A", "none", 0), Trial("A", "tsformer", 0), Trial("A", "majority", 0)
    ]  # fmt: skip
    assert study().trials()[0] == Trial("A", "tsformer", 0)
    assert both.label == "4 methods on A"


def test_the_transformer_shares_its_fits_with_its_encoding():
    as_method = Study(("A",), methods={"mine": {"encoding": "none", "d_model": 32}})
    as_encoding = Study(("A",), ("none",), parameters={"d_model": 32})
    assert as_method.key("A", "mine", 1) == as_encoding.key("A", "none", 1)
    assert as_method.encoding_of("mine") == "none"
    for path in ("tsformer", "tsformer.estimators"):
        said = {"estimator": f"{path}.TSTransformerClassifier", "encoding": "none", "d_model": 32}
        named = Study(("A",), methods={"mine": said})
        assert named.key("A", "mine", 1) == as_method.key("A", "mine", 1), path
    default = Study(("A",), methods={"tsformer": {}})
    assert default.key("A", "tsformer", 0) == Study(("A",), ("lspe",)).key("A", "lspe", 0)
    values = ("auto", False, True)
    auto, eager, compiled = (
        Study(("A",), ("lspe",), parameters={"compile": value}).hash_of() for value in values
    )
    assert auto == eager == Study(("A",), ("lspe",)).hash_of() != compiled


def test_the_parameters_of_the_study_are_those_of_its_transformers():
    shared = study(parameters={"d_model": 16, "n_layers": 1}, vary={"stem": ["linear", "conv"]})
    assert shared.parameters_of("stem=conv", "tsformer") == {
        "d_model": 32, "n_layers": 1, "stem": "conv"
    }  # fmt: skip
    assert shared.parameters_of("stem=conv", "majority") == {"strategy": "prior"}
    keys = [shared.key(*trial) for trial in shared.trials()]
    assert len(keys) == 12
    # Of majority one for all seeds and variants, of minirocket one for all variants.
    assert len(set(keys)) == 4 + 1 + 2


def test_what_changes_a_fit_changes_its_key(monkeypatch):
    key = study().key("A", "minirocket", 0)
    renamed = Study(
        ("A",), methods={"MiniRocket": NAMED["minirocket"] | {"estimator": "minirocket"}}
    )
    assert renamed.key("A", "MiniRocket", 0) == key, "a name is no part of a fit"
    other = Study(("A",), methods={"minirocket": {"n_kernels": 168}})
    assert other.key("A", "minirocket", 0) != key
    assert study().key("A", "minirocket", 1) != key
    monkeypatch.setattr("tsformer.studies.design.methods.library_version", lambda path: "sktime 9")
    assert study().key("A", "minirocket", 0) != key
    assert study().name != Study(("A",), seeds=2, methods={"tsformer": {}}).name


def test_chance_that_a_parameter_brings_makes_the_seed_count():
    methods = {
        "majority": {},
        "drawn": {"estimator": "majority", "strategy": "stratified"},
        "path": {"estimator": "sklearn.dummy.DummyClassifier", "strategy": "uniform"},
    }
    found = study(methods=methods, seeds=2)
    same = {name: found.key("A", name, 0) == found.key("A", name, 1) for name in methods}
    assert same == {"majority": True, "drawn": False, "path": False}


def test_a_file_has_tables_of_methods(tmp_path):
    file = tmp_path / "field.toml"
    file.write_text(
        'datasets = ["A"]\nseeds = 2\n[methods.tsformer]\nd_model = 32\n[methods.majority]\n'
        "[methods.minirocket]\nn_kernels = 84\n"
    )
    read = Study.from_toml(file)
    assert read == study()
    beside = tmp_path / "study.json"
    beside.write_text(json.dumps(read.as_dict()))
    assert Study.from_toml(beside) == read, "the design that is beside results"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"methods": {}}, ValueError, "encodings or methods must name at least one"),
        ({"methods": {"minirokcet": {}}}, ValueError, "did you mean 'minirocket'"),
        ({"methods": {"random_forest": {}}}, ValueError, "'random_forest' names no estimator"),
        ({"methods": {"a": {"estimator": "rokcet"}}}, ValueError, "did you mean 'rocket'"),
        ({"methods": {"a": {"estimator": 3}}}, TypeError, "estimator of method 'a' must be"),
        ({"methods": {"a": "rocket"}}, TypeError, "method 'a' must be a table"),
        ({"methods": {"a": {"d_modle": 1}}}, ValueError, "did you mean 'd_model'"),
        ({"methods": {"a": {"d_model": print}}}, TypeError, "d_model=<built-in"),
        ({"methods": {"rocket": {"n_jobs": float("nan")}}}, TypeError, "n_jobs=nan cannot be"),
        ({"methods": {"rocket": {"random_state": 1}}}, ValueError, "the comparison sets it"),
        ({"encodings": ("none",), "methods": {"none": {}}}, ValueError, "both an encoding and a"),
        (
            {"methods": {"rocket": {}}, "parameters": {"d_model": 8}},
            ValueError,
            "no method of this study is one; got 'd_model'",
        ),
    ],
)  # fmt: skip
def test_mistakes(options, error, message):
    with pytest.raises(error, match=message):
        study(**options)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"estimator": "sklearn.svm.SVCC"}, "class of sklearn.svm 'SVCC': did you mean 'SVC'"),
        ({"estimator": "sklearn.smv.SVC"}, "there is no module 'sklearn.smv'; it must be"),
        ({"estimator": "sklearn.svm.SVC", "n_layer": 1}, "unknown parameter of sklearn.svm.SVC"),
        (
            {"estimator": "sklearn.ensemble.VotingClassifier", "voting": "soft"},
            r"constructed with \{'voting': 'soft'\}: TypeError: .*'est",
        ),
    ],
)
def test_what_is_not_there_is_said_before_any_fit(method, message):
    with pytest.raises(ValueError, match=message):
        Study(("A",), methods={"a": method}).check()
    Study(("A",), methods={"a": {"estimator": "sklearn.svm.SVC"}, "tsformer": {}}).check()
