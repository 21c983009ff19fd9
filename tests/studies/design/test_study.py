"""Study: what it takes, what it refuses, and which fits count as the same."""

from pathlib import Path
from typing import Any

import pytest

from tsformer.studies import Study, Trial
from tsformer.studies.design.study_file import train_sizes


def test_spellings_and_growth_keep_a_study_and_its_fits():
    study = Study(["A", "B"], "lspe", seeds=2, parameters={"n_layers": 1})
    assert study.datasets == ("A", "B")
    assert study.encodings == ("lspe",)
    assert study.seeds == (0, 1)
    assert Study(["A"], ["lspe"]).seeds == (0, 1, 2)
    small = Study(("A",), ("none",), seeds=1, parameters={"n_layers": 1})
    large = Study(("A", "B"), ("none", "lspe"), seeds=5, parameters={"n_layers": 1})
    assert small.key("A", "none", 0) == large.key("A", "none", 0) == f"A/none/0/{small.hash_of()}"
    assert small.name != large.name


def test_every_encoding_comes_before_the_second_seed():
    study = Study(("A", "B"), ("none", "tape+erpe"), seeds=(7, 3))
    assert study.trials() == [
        Trial(dataset, encoding, seed)
        for seed in (7, 3)
        for dataset in ("A", "B")
        for encoding in ("none", "tape+erpe")
    ]


def test_configuration_of_a_method_names_the_encoding_that_an_encoding_is():
    study = Study(("A",), ("none",), methods={"small": {"encoding": "rope", "d_model": 16}})
    varied, fixed = study.configuration(method="none"), study.configuration(method="small")
    assert fixed["encoding"] == "rope"
    assert fixed["d_model"] == 16
    assert not {"encoding", "estimator"} & set(varied)


def test_equal_studies_are_one_and_frozen():
    one = Study(("A",), ("none",), parameters={"n_layers": 1, "encoding_params": {}})
    same = Study(["A"], ["none"], 3, {"encoding_params": {}, "n_layers": 1})
    assert one == same
    assert len({one, same}) == 1
    assert one.name == same.name
    plain = {"datasets", "encodings", "seeds", "parameters", "vary", "resamples"}
    assert set(one.as_dict()) == plain, "what is not used changes no name of a study"
    with pytest.raises(AttributeError):
        one.seeds = (1,)


def hash_of(**parameters: object) -> str:
    return Study(("A",), ("none",), parameters=parameters).hash_of()


def test_what_changes_a_fit_changes_its_key_and_the_rest_does_not():
    whole = Study(("A", "B"), ("none", "lspe"), seeds=3)
    assert len({whole.key(*trial) for trial in whole.trials()}) == 12
    assert hash_of(n_layers=1) != hash_of()
    assert hash_of(n_estimators=2) != hash_of()
    assert hash_of(batch_size=16) != hash_of(), "auto is less for very long series"
    same = {"n_layers": 2, "n_estimators": 1, "n_jobs": 2, "batch_size": "auto"}
    assert {hash_of(**{name: value}) for name, value in same.items()} == {hash_of()}
    parts = {
        "head_norm": None,
        "views": "values",
        "augmentation": None,
        "stem_params": {"n_residual": 0},
        "temperature": 1.0,
        "scaling": "channel",
    }
    without = [hash_of(), *(hash_of(**{name: value}) for name, value in parts.items())]
    without.append(hash_of(stem_params={"downsampling": "stride"}))
    assert len(set(without)) == 8
    linear = {hash_of(stem="linear", scaling=each) for each in ("auto", "channel", "series")}
    assert len(linear) == 2


def test_variants_and_resamples_are_trials_with_keys_of_their_own():
    study = Study(
        ("A",), ("none", "lspe"), 1, {"n_layers": 1},
        vary={"stem": ["linear", "conv"], "dropout": [0.0, 0.1]}, resamples=2,
    )  # fmt: skip
    trials = study.trials()
    assert len(trials) == len({study.key(*trial) for trial in trials}) == 16
    assert [trial.method for trial in trials[:2]] == ["none", "lspe"]
    assert trials[0] == Trial("A", "none", 0, "stem=linear, dropout=0.0", 0)
    assert trials[8].resample == 1
    assert study.key(*trials[8]) == f"{study.key(*trials[0])}/resample-1"
    assert study.parameters_of(trials[0].variant) == {
        "n_layers": 1, "stem": "linear", "dropout": 0.0
    }  # fmt: skip
    alone = Study(("A",), ("none",), 1, study.parameters_of(trials[0].variant))
    assert alone.key("A", "none", 0) == study.key(*trials[0]), "varied or not, it is the same fit"


def test_files_say_what_flags_say(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        'datasets = ["A", "B"]\nencodings = ["none"]\nseeds = [0, 7]\nresamples = 3\n'
        '[parameters]\nn_layers = 1\n[parameters.encoding_params]\n'
        '[vary]\nstem = ["linear", "conv"]\n'
    )  # fmt: skip
    study = Study.from_toml(file)
    assert study == Study(
        ("A", "B"), ("none",), (0, 7), {"n_layers": 1, "encoding_params": {}},
        {"stem": ("linear", "conv")}, 3,
    )  # fmt: skip
    assert Study(**study.as_dict()).name == study.name
    files = sorted((Path(__file__).parents[3] / "experiments/studies").glob("*.toml"))
    assert files
    for file in files:
        assert len(Study.from_toml(file).trials()) > 100


def test_a_study_is_called_by_its_title_its_file_or_what_it_compares(tmp_path):
    file = tmp_path / "sums.toml"
    design = 'datasets = ["A", "B"]\nencodings = ["none", "lspe"]\n'
    studies = [Study(("A", "B"), ("none", "lspe"))]
    for title in ("", 'title = "Do sums help?"\n'):
        file.write_text(design + title)
        studies.append(Study.from_toml(file))
    labels = [each.label for each in studies]
    assert labels == ["2 encodings on 2 data sets", "sums", "Do sums help?"]
    assert len({*studies}) == len({each.name for each in studies}) == 1, "no part of the design"
    varied = Study(("A",), ("none",), vary={"stem": ["linear", "conv"]})
    assert varied.label == "none on A, stem varied"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('dataset = ["A"]', "'datasets'"),
        ('datasets = ["A"]\nencodings = ["none"]\nvary = 3', "vary"),
        ('datasets = ["A"]\nencodings = ["nnoe"]', "'none'"),
    ],
)
def test_a_file_with_a_mistake(text, message, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        Study.from_toml(file)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"encodings": ["lpse"]}, "'lpse'.*'lspe'"),
        ({"encodings": ["none", "none"]}, "'none' twice"),
        ({"encodings": ["tape+erpe", "tape + erpe"]}, r"'tape\+erpe' twice"),
        ({"seeds": 0}, "seeds"),
        ({"parameters": {"n_layer": 1}}, "'n_layers'"),
        ({"parameters": {"random_state": 1}}, "random_state"),
        ({"parameters": {"max_epochs": 0}}, "max_epochs"),
        ({"vary": {"n_layer": [1]}}, "'n_layers'"),
        ({"vary": {"stem": "conv"}}, "'stem'.*'conv'"),
        ({"vary": {"stem": ["conv", "cnov"]}}, "'conv'"),
        ({"vary": {"encoding": ["none"]}}, "encodings"),
        ({"vary": {"stem": ["conv"]}, "parameters": {"stem": "conv"}}, "'stem'.*both"),
        ({"vary": {"n_jobs": [1, 2]}}, "n_jobs"),
        ({"splits": {"AA": "two folds"}}, "'AA'"),
        ({"leave_out": {"lspe": ["A"]}}, "'lspe'"),
        ({"leave_out": {"none": ["AA"]}}, "'AA'"),
        ({"methods": {"minirokcet": {}}}, "'minirocket'"),
        ({"methods": {"a": {"d_modle": 1}}}, "'d_model'"),
        ({"methods": {"rocket": {"random_state": 1}}}, "random_state"),
        ({"encodings": ("none",), "methods": {"none": {}}}, "'none'"),
        ({"encodings": (), "methods": {"rocket": {}}, "parameters": {"d_model": 8}}, "'d_model'"),
        ({"train_sizes": [0]}, "0"),
        ({"train_sizes": ["half"]}, "'half'"),
        ({"train_sizes": ["10%", "10.0 %"]}, "'10%' twice"),
    ],
)
def test_a_wrong_value_is_refused_at_once(arguments, named):
    with pytest.raises(ValueError, match=named):
        Study(**{"datasets": ["A"], "encodings": ["none"], **arguments})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"datasets": [3]}, "datasets.* 3"),
        ({"encodings": 3}, "encodings.* 3"),
        ({"parameters": {"encoding_params": {"f": print}}}, "encoding_params"),
        ({"splits": {"A": 2}}, "'A'.* 2"),
        ({"splits": ["A"]}, "splits"),
        ({"methods": {"a": {"estimator": 3}}}, "'a'.* 3"),
        ({"methods": {"a": {"d_model": print}}}, "d_model"),
        ({"methods": {"rocket": {"n_jobs": float("nan")}}}, "n_jobs=nan"),
        ({"train_sizes": [0.1]}, "10%"),
        ({"train_sizes": "10%"}, "'10%'"),
    ],
)
def test_a_wrong_type_is_refused_at_once(arguments, named):
    with pytest.raises(TypeError, match=named):
        Study(**{"datasets": ["A"], "encodings": ["none"], **arguments})


def test_each_size_has_one_spelling():
    said = (20, "50", " 7 ", "10%", "12.50 %", "100.0%", "2%")
    assert train_sizes(said) == ("20", "50", "7", "10%", "12.5%", "100%", "2%")
    assert train_sizes(()) == ()


def test_sizes_are_variants_with_keys_of_their_own():
    plain = Study(("A",), ("none", "lspe"), 2)
    study = Study(("A",), ("none", "lspe"), 2, train_sizes=(20, "50%", "100%"))
    assert list(study.variants) == ["train_size=20", "train_size=50%", "train_size=100%"]
    keys = {study.key(*trial) for trial in study.trials()}
    assert len(keys) == len(study.trials()) == 12
    shared = {plain.key(*trial) for trial in plain.trials()}
    assert shared < keys, "the whole split is what studies without sizes have"
    assert study.key("A", "none", 1, "train_size=20") == plain.key("A", "none", 1) + "/train-20"
    drawn = study.key("A", "none", 1, "train_size=50%", 2)
    assert drawn == plain.key("A", "none", 1, "", 2) + "/train-50%"

    vary = {"stem": ["conv", "linear"]}
    both = Study(("A",), ("none",), 1, vary=vary, train_sizes=("10%", "100%"))
    assert list(both.variants)[1] == "stem=conv, train_size=100%"
    assert both.train_size_of("stem=linear, train_size=10%") == "10%"
    assert both.parameters_of("stem=linear, train_size=10%") == {"stem": "linear"}
    assert Study(**both.as_dict()) == both
    # 1nn-dtw is not random, but every seed draws its own subset.
    nearest = Study(("A",), methods={"1nn-dtw": {}}, seeds=2, train_sizes=("50%", "100%"))
    assert len({nearest.key(*trial) for trial in nearest.trials()}) == 2 + 1


NAMED = {"tsformer": {"d_model": 32}, "majority": {}, "minirocket": {"n_kernels": 84}}


def study(**options: Any) -> Study:
    return Study(**{"datasets": ("A",), "seeds": 2, "methods": NAMED, **options})


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


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"estimator": "sklearn.svm.SVCC"}, "'SVC'"),
        ({"estimator": "sklearn.smv.SVC"}, "'sklearn.smv'"),
        ({"estimator": "sklearn.svm.SVC", "n_layer": 1}, "'n_layer'"),
        ({"estimator": "sklearn.ensemble.VotingClassifier", "voting": "soft"}, "'voting': 'soft'"),
    ],
)
def test_what_is_not_there_is_said_before_any_fit(method, message):
    with pytest.raises(ValueError, match=message):
        Study(("A",), methods={"a": method}).check()
    Study(("A",), methods={"a": {"estimator": "sklearn.svm.SVC"}, "tsformer": {}}).check()
