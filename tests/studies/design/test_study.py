"""Study: what it takes, what it refuses, and which fits count as the same."""

from pathlib import Path
from typing import Any

import pytest

from tsformer.studies import Study, Trial

NAMED = {"tsformer": {"d_model": 32}, "majority": {}, "minirocket": {"n_kernels": 84}}


def study(**options: Any) -> Study:
    return Study(**{"datasets": ("A",), "encodings": ("none",), **options})


def methods(seeds: int = 2, **options: Any) -> Study:
    return Study(**{"datasets": ("A",), "seeds": seeds, "methods": NAMED, **options})


def hash_of(**parameters: object) -> str:
    return study(parameters=parameters).hash_of()


def n_keys(design: Study) -> int:
    return len({design.key(*trial) for trial in design.trials()})


def test_equal_studies_are_one():
    one = study(parameters={"n_layers": 1, "encoding_params": {}})
    same = Study(["A"], "none", 3, {"encoding_params": {}, "n_layers": 1})
    assert len({one, same}) == len({one.name, same.name}) == 1
    assert (same.datasets, same.encodings, same.seeds) == (("A",), ("none",), (0, 1, 2))
    plain = {"datasets", "encodings", "seeds", "parameters", "vary", "resamples"}
    assert set(one.as_dict()) == plain, "what is not used changes no name of a study"


def test_a_larger_study_has_the_fits_of_a_smaller_one():
    small = study(seeds=1, parameters={"n_layers": 1})
    large = Study(("A", "B"), ("none", "lspe"), seeds=5, parameters={"n_layers": 1})
    assert small.key("A", "none", 0) == large.key("A", "none", 0) == f"A/none/0/{small.hash_of()}"
    assert small.name != large.name
    assert n_keys(large) == 20


def test_every_encoding_comes_before_the_second_seed():
    trials = Study(("A", "B"), ("none", "tape+erpe"), seeds=(7, 3)).trials()
    assert trials[:3] == [Trial("A", "none", 7), Trial("A", "tape+erpe", 7), Trial("B", "none", 7)]
    assert [trial.seed for trial in trials] == [7] * 4 + [3] * 4


def test_what_changes_a_fit_changes_its_key_and_the_rest_does_not():
    assert hash_of(batch_size=16) != hash_of(), "auto is less for very long series"
    same = {"n_layers": 2, "n_estimators": 1, "n_jobs": 2, "batch_size": "auto", "compile": False}
    assert {hash_of(**{name: value}) for name, value in same.items()} == {hash_of()}
    parts = {"n_layers": 1, "n_estimators": 2, "compile": True, "head_norm": None}
    parts |= {"views": "values", "augmentation": None, "stem_params": {"n_residual": 0}}
    parts |= {"temperature": 1.0, "scaling": "channel"}
    without = [hash_of(), *(hash_of(**{name: value}) for name, value in parts.items())]
    without.append(hash_of(stem_params={"downsampling": "stride"}))
    assert len(set(without)) == 11
    linear = {hash_of(stem="linear", scaling=scaling) for scaling in ("auto", "channel", "series")}
    assert len(linear) == 2


def test_variants_and_resamples_are_trials_with_keys_of_their_own():
    vary = {"stem": ["linear", "conv"], "dropout": [0.0, 0.1]}
    varied = Study("A", ("none", "lspe"), 1, {"n_layers": 1}, vary, resamples=2)
    trials = varied.trials()
    assert len(trials) == n_keys(varied) == 16
    assert trials[0] == Trial("A", "none", 0, "stem=linear, dropout=0.0", 0)
    assert (trials[1].method, trials[8].resample) == ("lspe", 1)
    assert varied.key(*trials[8]) == f"{varied.key(*trials[0])}/resample-1"
    parameters = varied.parameters_of(trials[0].variant)
    assert parameters == {"n_layers": 1, "stem": "linear", "dropout": 0.0}
    alone = study(seeds=1, parameters=parameters)
    assert alone.key("A", "none", 0) == varied.key(*trials[0]), "varied or not, it is the same fit"


def test_files_say_what_flags_say(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        'datasets = ["A", "B"]\nencodings = ["none"]\nseeds = [0, 7]\nresamples = 3\n'
        '[parameters]\nn_layers = 1\n[parameters.encoding_params]\n'
        '[vary]\nstem = ["linear", "conv"]\n'
    )  # fmt: skip
    design = Study.from_toml(file)
    parameters = {"n_layers": 1, "encoding_params": {}}
    assert design == Study(("A", "B"), "none", (0, 7), parameters, {"stem": ("linear", "conv")}, 3)
    assert Study(**design.as_dict()).name == design.name
    files = sorted((Path(__file__).parents[3] / "experiments/studies").glob("*.toml"))
    assert files
    for file in files:
        assert len(Study.from_toml(file).trials()) > 50


def test_a_study_is_called_by_its_title_its_file_or_what_it_compares(tmp_path):
    file, lines = tmp_path / "sums.toml", 'datasets = ["A", "B"]\nencodings = ["none", "lspe"]\n'
    studies = [Study(("A", "B"), ("none", "lspe"))]
    for title in ("", 'title = "Do sums help?"\n'):
        file.write_text(lines + title)
        studies.append(Study.from_toml(file))
    labels = [design.label for design in studies]
    assert labels == ["2 encodings on 2 data sets", "sums", "Do sums help?"]
    assert len({*studies}) == len({design.name for design in studies}) == 1, "no part of the design"


@pytest.mark.parametrize("text", ['dataset = ["A"]', "datasets = "])
def test_a_file_with_a_mistake(text, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(ValueError):
        Study.from_toml(tmp_path / "study.toml")


WRONG = {
    ValueError: [
        ({"encodings": ["lpse"]}, "'lpse'.*'lspe'"),
        ({"encodings": ["tape+erpe", "tape + erpe"]}, r"'tape\+erpe' twice"),
        ({"seeds": 0}, "seeds"),
        ({"parameters": {"n_layer": 1}}, "'n_layers'"),
        ({"parameters": {"random_state": 1}}, "random_state"),
        ({"parameters": {"max_epochs": 0}}, "max_epochs"),
        ({"vary": {"n_layer": [1]}}, "'n_layers'"),
        ({"vary": {"stem": ["conv", "cnov"]}}, "'conv'"),
        ({"vary": {"encoding": ["none"]}}, "'encoding'"),
        ({"vary": {"stem": ["conv", "conv"]}}, "'conv' twice"),
        ({"vary": {"stem": ["conv"]}, "parameters": {"stem": "conv"}}, "'stem'"),
        ({"splits": {"AA": "two folds"}}, "'AA'"),
        ({"leave_out": {"lspe": ["A"]}}, "'lspe'"),
        ({"leave_out": {"none": ["AA"]}}, "'AA'"),
        ({"methods": {"minirokcet": {}}}, "'minirocket'"),
        ({"methods": {"a": {"d_modle": 1}}}, "'d_model'"),
        ({"methods": {"rocket": {"random_state": 1}}}, "random_state"),
        ({"methods": {"none": {}}}, "'none'"),
        ({"encodings": (), "methods": {"rocket": {}}, "parameters": {"d_model": 8}}, "'d_model'"),
        ({"train_sizes": [0]}, "0"),
        ({"train_sizes": ["half"]}, "'half'"),
        ({"train_sizes": ["10%", "10.0 %"]}, "'10%' twice"),
        ({"train_sizes": [0.1]}, "10%"),
    ],
    TypeError: [
        ({"datasets": [3]}, "datasets.* 3"),
        ({"encodings": 3}, "encodings.* 3"),
        ({"parameters": {"encoding_params": {"f": print}}}, "encoding_params"),
        ({"splits": ["A"]}, "splits"),
        ({"methods": {"a": {"estimator": 3}}}, "'a'.* 3"),
        ({"methods": {"a": {"d_model": print}}}, "d_model"),
        ({"methods": {"rocket": {"n_jobs": float("nan")}}}, "'n_jobs': nan"),
        ({"train_sizes": 10}, "10"),
    ],
}


@pytest.mark.parametrize(
    ("error", "arguments", "named"),
    [(error, *row) for error, rows in WRONG.items() for row in rows],
)
def test_a_wrong_value_or_type_is_refused_at_once(error, arguments, named):
    with pytest.raises(error, match=named):
        study(**arguments)


def test_each_size_has_one_spelling():
    sizes = (20, "50", " 7 ", "10%", "12.50 %", "100.0%", "2%")
    assert study(train_sizes=sizes).train_sizes == ("20", "50", "7", "10%", "12.5%", "100%", "2%")


def test_sizes_are_variants_with_keys_of_their_own():
    plain = Study(("A",), ("none", "lspe"), 2)
    sized = Study(("A",), ("none", "lspe"), 2, train_sizes=(20, "50%", "100%"))
    assert list(sized.variants) == ["train_size=20", "train_size=50%", "train_size=100%"]
    keys = {sized.key(*trial) for trial in sized.trials()}
    assert len(keys) == len(sized.trials()) == 12
    shared = {plain.key(*trial) for trial in plain.trials()}
    assert shared < keys, "the whole split is what studies without sizes have"
    drawn = sized.key("A", "none", 1, "train_size=50%", 2)
    assert drawn == plain.key("A", "none", 1, "", 2) + "/train-50%"

    both = study(vary={"stem": ["conv", "linear"]}, train_sizes=("10%", "100%"))
    assert list(both.variants)[1] == "stem=conv, train_size=100%"
    assert both.train_size_of("stem=linear, train_size=10%") == "10%"
    assert both.parameters_of("stem=linear, train_size=10%") == {"stem": "linear"}
    assert Study(**both.as_dict()) == both
    # 1nn-dtw is not random, but every seed draws its own subset.
    assert n_keys(methods(methods={"1nn-dtw": {}}, train_sizes=("50%", "100%"))) == 2 + 1


def test_a_method_that_is_the_transformer_shares_its_fits_with_its_encoding():
    small = {"encoding": "none", "d_model": 32}
    key = study(parameters={"d_model": 32}).key("A", "none", 1)
    for estimator in (
        "tsformer",
        *(f"tsformer{room}.TSTransformerClassifier" for room in ("", ".estimators")),
    ):
        named = methods(methods={"mine": {"estimator": estimator, **small}})
        assert named.key("A", "mine", 1) == key
        assert named.encoding_of("mine") == "none"
    configuration = methods(methods={"mine": small}).configuration(method="mine")
    assert configuration.items() >= small.items()
    assert not {"encoding", "estimator"} & set(study().configuration(method="none"))
    default = methods(methods={"tsformer": {}})
    assert default.key("A", "tsformer", 0) == Study(("A",), ("lspe",)).key("A", "lspe", 0)


def test_the_parameters_of_the_study_are_those_of_its_transformers():
    shared = methods(parameters={"d_model": 16, "n_layers": 1}, vary={"stem": ["linear", "conv"]})
    parameters = shared.parameters_of("stem=conv", "tsformer")
    assert parameters == {"d_model": 32, "n_layers": 1, "stem": "conv"}
    assert shared.parameters_of("stem=conv", "majority") == {"strategy": "prior"}
    assert len(shared.trials()) == 12
    # Of majority one for all seeds and variants, of minirocket one for all variants.
    assert n_keys(shared) == 4 + 1 + 2


def test_the_key_of_a_method_is_its_class_version_parameters_and_seed(monkeypatch):
    key = methods().key("A", "minirocket", 0)
    renamed = methods(methods={"Mini": NAMED["minirocket"] | {"estimator": "minirocket"}})
    assert renamed.key("A", "Mini", 0) == key, "a name is no part of a fit"
    assert methods(methods={"minirocket": {"n_kernels": 168}}).key("A", "minirocket", 0) != key
    assert methods().key("A", "minirocket", 1) != key
    monkeypatch.setattr("tsformer.studies.design.methods.library_version", lambda path: "sktime 9")
    assert methods().key("A", "minirocket", 0) != key
    assert methods().name != methods(methods={"tsformer": {}}).name


def test_chance_that_a_parameter_brings_makes_the_seed_count():
    named = {
        "majority": {},
        "drawn": {"estimator": "majority", "strategy": "stratified"},
        "path": {"estimator": "sklearn.dummy.DummyClassifier", "strategy": "uniform"},
    }
    design = methods(methods=named)
    same = {name: design.key("A", name, 0) == design.key("A", name, 1) for name in named}
    assert same == {"majority": True, "drawn": False, "path": False}


@pytest.mark.parametrize(
    ("path", "options"), [("sklearn.svm.SVCC", {}), ("sklearn.svm.SVC", {"n_layer": 1})]
)
def test_what_is_not_there_is_said_before_any_fit(path, options):
    with pytest.raises(ValueError):
        methods(methods={"a": {"estimator": path, **options}}).check()
