"""From names and dotted paths to classes, and what their versions are."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import tsformer
from tsformer.baselines import BASELINES, find, library_version, load_class
from tsformer.baselines.resolve import is_foreign


def test_a_path_of_a_class_on_the_list_reads_what_that_reads() -> None:
    path = BASELINES["minirocket"].path
    assert find(path).needs == BASELINES["rocket"].needs
    assert find(path).parameters == {}
    assert find("sklearn.svm.SVC").random


def test_foreign_is_what_nobody_vouches_for() -> None:
    assert is_foreign("sklearn.svm.SVC")
    assert not any(map(is_foreign, [*BASELINES, "tsformer.TSTransformerClassifier"]))


def test_the_version_is_that_of_the_library_or_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library_version("sklearn.svm.SVC") == f"scikit-learn {version('scikit-learn')}"
    assert library_version("tsformer.TSEnsembleClassifier") == f"tsformer {tsformer.__version__}"
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "mine_alone.py"
    file.write_text("class C: pass\n")
    first = library_version("mine_alone.C")
    assert first.startswith("mine_alone ")
    library_version.cache_clear()
    file.write_text("class C: x = 1\n")
    assert library_version("mine_alone.C") != first, "other code is another classifier"
    assert library_version("nowhere.C") == "nowhere of unknown version"


def test_other_code_anywhere_in_a_package_is_another_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_inside").mkdir()
    (tmp_path / "mine_inside/__init__.py").write_text("from mine_inside.impl import C\n")
    found = []
    for code in ("class C: pass\n", "class C: x = 1\n"):
        (tmp_path / "mine_inside/impl.py").write_text(code)
        library_version.cache_clear()
        found += [library_version("mine_inside.C"), library_version("mine_inside.impl.C")]
    library_version.cache_clear()
    assert found[0] == found[1] != found[2] == found[3]
    assert not any("unknown" in version for version in found)


def test_a_class_of_a_script_is_known_by_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    found = []
    for code in ("class C: pass\n", "class C: x = 1\n"):
        Path(script.__file__).write_text(code)
        library_version.cache_clear()
        found.append(library_version("__main__.C"))
    library_version.cache_clear()
    assert found[0] != found[1]
    assert not any("unknown" in version for version in found)


def test_what_is_no_classifier() -> None:
    with pytest.raises(TypeError, match="must be a class with fit and predict; got"):
        load_class("sklearn.preprocessing.StandardScaler")
    with pytest.raises(TypeError, match="must be a class with fit and predict"):
        load_class("math.pi")


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        ("sklearn.linear_model.LinearRegression", "a regressor"),
        ("sklearn.cluster.KMeans", "a clusterer"),
        ("sklearn.ensemble.IsolationForest", "an outlier detector"),
        ("sktime.regression.dummy.DummyRegressor", "a regressor"),
        ("sktime.clustering.dbscan.TimeSeriesDBSCAN", "a clusterer"),
        ("aeon.regression.DummyRegressor", "a regressor"),
    ],
)
def test_what_predicts_no_labels_is_no_classifier(estimator: str, kind: str) -> None:
    pytest.importorskip(estimator.partition(".")[0])
    with pytest.raises(TypeError, match=f"^{estimator} is {kind}; name a classifier$"):
        load_class(estimator)


def test_only_classifiers_are_suggested() -> None:
    with pytest.raises(ValueError, match="did you mean") as raised:
        load_class("sklearn.ensemble.RandomForestClasifier")
    assert "RandomForestClassifier" in str(raised.value)
    assert "RandomForestRegressor" not in str(raised.value)


def test_a_module_without_any_classifier_says_so() -> None:
    with pytest.raises(ValueError, match=r"^math\.Mine: math has no classifier 'Mine'"):
        load_class("math.Mine")


def test_a_module_that_lacks_a_library_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    with pytest.raises(ImportError, match=r"needy\.C needs no_such_library.*pip install no_such"):
        load_class("needy.C")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise ModuleNotFoundError('install\\n it yourself')", "ModuleNotFoundError: install it"),
    ],
)
def test_a_module_that_ends_when_it_is_imported_does_not_end_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ending.py").write_text(f"class C: pass\n{code}\n")
    with pytest.raises(ImportError, match=rf"^ending\.C cannot be imported: .* raised {said}"):
        load_class("ending.C")


def test_a_class_of_a_notebook_has_no_code_to_be_found_by(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine:
        def fit(self, X, y): ...

        def predict(self, X): ...

    notebook = ModuleType("__main__")
    notebook.Mine = Mine
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    with pytest.raises(ValueError, match=r"interactive session.* name it mine\.Mine"):
        load_class("__main__.Mine")
