"""From names and dotted paths to classes, and what their versions are."""

from __future__ import annotations

import sys
from importlib.metadata import version
from types import ModuleType

import pytest

import tsformer
from tsformer.baselines import BASELINES, find, library_version, load_class
from tsformer.baselines.resolve import is_foreign


def test_what_is_known_of_a_path():
    assert library_version("sklearn.svm.SVC") == f"scikit-learn {version('scikit-learn')}"
    assert library_version("tsformer.TSEnsembleClassifier") == f"tsformer {tsformer.__version__}"
    assert library_version("nowhere.C") == "nowhere of unknown version"
    path = BASELINES["minirocket"].path
    assert find(path).needs == BASELINES["rocket"].needs
    assert find(path).parameters == {}
    assert find("sklearn.svm.SVC").random
    assert is_foreign("sklearn.svm.SVC")
    assert not any(map(is_foreign, [*BASELINES, "tsformer.TSTransformerClassifier"]))


def test_other_code_anywhere_in_a_file_or_package_is_another_classifier(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_inside").mkdir()
    (tmp_path / "mine_inside/__init__.py").write_text("from mine_inside.impl import C\n")
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    # Listing all distributions takes a second.
    monkeypatch.setattr("tsformer.baselines.resolve._distributions", None)
    found = []
    for code in ("class C: pass\n", "class C: x = 1\n"):
        for name in ("mine_inside/impl.py", "mine_alone.py", "script.py"):
            (tmp_path / name).write_text(code)
        library_version.cache_clear()
        paths = ("mine_inside.C", "mine_inside.impl.C", "mine_alone.C", "__main__.C")
        found.append(list(map(library_version, paths)))
    library_version.cache_clear()
    assert found[0][0] == found[0][1]
    assert not set(found[0]) & set(found[1])
    assert not any("unknown" in version for version in found[0] + found[1])


@pytest.mark.parametrize(
    ("estimator", "error", "said"),
    [
        ("sklearn.preprocessing.StandardScaler", TypeError, "must be a class with fit and predict"),
        ("math.pi", TypeError, "must be a class with fit and predict"),
        ("math.Mine", ValueError, r"^math\.Mine: math has no classifier 'Mine'"),
        ("sklearn.linear_model.LinearRegression", TypeError, "is a regressor; name a classifier$"),
        ("sklearn.ensemble.IsolationForest", TypeError, "is an outlier detector"),
        ("sktime.regression.dummy.DummyRegressor", TypeError, "is a regressor"),
    ],
)
def test_what_is_no_classifier(estimator, error, said):
    pytest.importorskip(estimator.partition(".")[0])
    with pytest.raises(error, match=said):
        load_class(estimator)


def test_a_module_that_lacks_a_library_says_which(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    with pytest.raises(ImportError, match=r"needy\.C needs no_such_library.*pip install no_such"):
        load_class("needy.C")
    with pytest.raises(ValueError, match=r"(?!.*Regressor)did you mean.*RandomForestClassifier"):
        load_class("sklearn.ensemble.RandomForestClasifier")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise ModuleNotFoundError('install\\n it yourself')", "ModuleNotFoundError: install it"),
    ],
)
def test_a_module_that_ends_when_it_is_imported_does_not_end_the_comparison(
    tmp_path, monkeypatch, code, said
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ending.py").write_text(f"class C: pass\n{code}\n")
    with pytest.raises(ImportError, match=rf"^ending\.C cannot be imported: .* raised {said}"):
        load_class("ending.C")


def test_a_class_of_a_notebook_has_no_code_to_be_found_by(monkeypatch):
    class Mine:
        def fit(self, X, y): ...

        def predict(self, X): ...

    notebook = ModuleType("__main__")
    notebook.Mine = Mine
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    with pytest.raises(ValueError, match=r"interactive session.* name it mine\.Mine"):
        load_class("__main__.Mine")
