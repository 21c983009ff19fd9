"""Windows of recordings and the way back, against plain loops on recordings with known answers."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from tsformer import RandomConvolutionClassifier
from tsformer.data import windows
from tsformer.data.recordings import Recording

RNG = np.random.default_rng(0)
DAY = pd.Timestamp("2024-03-01")


def signal(n: int = 100, n_channels: int = 2) -> np.ndarray:
    return RNG.normal(size=(n_channels, n))


def frame(index: object) -> pd.DataFrame:
    return pd.DataFrame({"x": np.arange(float(len(index)))}, index=index)


def rule(labels: list, least_share: float, mixed: object = None) -> object:
    """Return the label of one window, None to leave it out."""
    counts = Counter(label for label in labels if label is not None).most_common()
    best = counts[0] if counts else (None, 0)
    tied = len(counts) > 1 and counts[1][1] == best[1]
    if best[1] >= least_share * len(labels) and not tied:
        return best[0]
    return mixed if sum(n for _, n in counts) >= least_share * len(labels) else None


@pytest.mark.parametrize("stride", [1, 3, 7, 20])
@pytest.mark.parametrize(("least_share", "mixed"), [(0.5, None), (0.8, None), (0.8, "change")])
def test_windows_are_those_of_a_loop(stride, least_share, mixed):
    """Unequal recordings, several labels a window, unlabelled time."""
    recordings = {name: signal(n) for name, n in [("a", 100), ("b", 57), ("c", 9)]}
    labels = {
        name: np.repeat(RNG.choice(["rest", "walk", None], size=25), 7)[: x.shape[1]]
        for name, x in recordings.items()
    }
    X, y, origins = [], [], []
    for name, x in recordings.items():
        for start in range(0, x.shape[1] - 10 + 1, stride):
            label = rule(labels[name][start : start + 10].tolist(), least_share, mixed)
            if label is not None:
                X.append(x[:, start : start + 10])
                y.append(label)
                origins.append((name, start, start + 10))
    cut = windows(recordings, labels, 10, stride, least_share=least_share, mixed=mixed or "drop")
    np.testing.assert_array_equal(cut.X, X)
    assert cut.y.tolist() == y
    assert list(cut.origins.itertuples(index=False, name=None)) == origins
    assert cut.groups.tolist() == [name for name, *_ in origins]


def test_unlabelled_time_may_be_a_class_and_a_recording_without_labels():
    labels = pd.Series([1.0] * 4 + [np.nan] * 6)
    assert windows(signal(10), labels, 4, 3).y.tolist() == [1]
    assert windows(signal(10), labels, 4, 3, unlabelled=0).y.tolist() == [1, 0, 0]
    texts = np.array(["a"] * 4 + [None] * 6, dtype=object)
    assert windows(signal(10), texts, 4, 3, unlabelled="b").y.tolist() == ["a", "b", "b"]
    assert texts.tolist() == ["a"] * 4 + [None] * 6, "the caller's labels stay"
    cut = windows({"a": signal(9).tolist(), "b": signal(9)}, {"a": ["x"] * 9, "b": None}, 3, 3)
    assert cut.groups.tolist() == ["a"] * 3


def test_no_window_spans_a_pause():
    x = frame(DAY + pd.to_timedelta([*range(10), *range(30, 40), *range(46, 60)], unit="s"))
    for pause, ends in ((None, [10, 20, 34]), ("10s", [10, 34]), ("1h", [34])):
        starts, begin = [], 0
        for end in ends:
            starts += range(begin, end - 4 + 1, 3)
            begin = end
        assert windows(x, None, 4, 3, pause=pause).origins["start"].tolist() == starts
    assert len(windows(frame([0, 1, 2, 9, 10, 11]), None, 3, 1, pause=2)) == 2


def test_times_are_steps_of_each_recording():
    slow, fast = (frame(pd.date_range(DAY, periods=60, freq=step)) for step in ("2s", "1s"))
    cut = windows([slow, fast], None, "10s", pd.Timedelta("5s"))
    assert [x.shape for x in cut.X[:1] + cut.X[-1:]] == [(1, 5), (1, 10)]
    assert np.diff(cut.origins.query("recording == 1")["start"]).tolist() == [5] * 10
    jitter = fast.set_axis(fast.index + pd.to_timedelta(RNG.integers(0, 40, 60), unit="ms"))
    assert windows([fast, jitter], None, "10s", "5s").X.shape == (22, 1, 10)


@pytest.mark.parametrize("day", ["2024-03-31", "2024-10-27"])
def test_a_change_of_the_clock_is_no_pause(day):
    index = pd.date_range(day, periods=48, freq="30min", tz="Europe/Berlin")
    ends = [index[3], index[11]]
    intervals = pd.DataFrame({"start": [index[0], ends[0]], "end": ends, "label": ["a", "b"]})
    for bounds in (intervals, intervals.assign(start=lambda f: f["start"].dt.tz_convert("UTC"))):
        cut = windows(frame(index), bounds, "90min", "30min", least_share=1)
        assert cut.origins["start"].tolist() == [0, *range(3, 9)]
        assert cut.y.tolist() == ["a", *"bbbbbb"]
    events = cut.events(cut.steps(cut.y))
    pd.testing.assert_frame_equal(events[["start", "end", "label"]], intervals, check_dtype=False)
    assert (events["end"] - events["start"]).tolist() == [pd.Timedelta("90min"), pd.Timedelta("4h")]
    local = index.tz_localize(None)
    if not local.is_monotonic_increasing:
        with pytest.raises(ValueError):
            windows(frame(local), None, 4, 2)


def test_columns_name_labels_and_groups():
    index = pd.RangeIndex(20)
    x = pd.DataFrame({"x": 1.0, "y": 2.0, "activity": ["a"] * 10 + ["b"] * 10}, index)
    cut = windows({7: x.assign(who="eve"), 8: x.assign(who="eve")}, "activity", 5, 5, groups="who")
    assert cut.X.shape == (8, 2, 5)
    assert cut.y.tolist() == [*"aabb"] * 2
    assert set(cut.groups) == {"eve"}
    assert windows([x[["x"]]] * 2, [x["activity"]] * 2, 5, 5, groups=[3, 4]).groups[-1] == 4
    with pytest.raises(TypeError):
        windows(signal(20), x["activity"], 5, 5, groups="who")


def test_windows_of_a_file_are_a_view_of_its_memmap(tmp_path):
    """Gaps stay; fit reads them in parts."""
    values = signal(400).astype(np.float32)
    values[:, 200:] += 3
    values[0, 7] = np.nan
    np.save(tmp_path / "x.npy", values)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    labels = np.repeat(["low", "high"], 200)
    cut, plain = (windows(x, labels, 20, 10, mixed="low") for x in (mapped, values))
    assert isinstance(cut.X, np.memmap)
    assert np.shares_memory(cut.X, mapped)
    np.testing.assert_array_equal(cut.X, plain.X)
    classifier = RandomConvolutionClassifier(n_features=168, random_state=0)
    classifier.fit(cut.X, cut.y, groups=cut.groups)
    proba, expected = (classifier.predict_proba(windows.X) for windows in (cut, plain))
    np.testing.assert_allclose(proba, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_a_split_keeps_steps_apart():
    cut = windows([signal() for _ in range(4)], [[0, 1] * 50] * 4, 9, 3)
    assert len(list(cut.split(GroupKFold(4)))) == 4
    model = DummyClassifier()
    assert cross_val_score(model, cut.X, cut.y, groups=cut.groups, cv=GroupKFold(2)).shape == (2,)
    cut.check_split(np.arange(5), cut.origins.eval("recording > 0 or start >= 24").to_numpy())
    with pytest.raises(ValueError):
        next(cut.split(KFold(3)))
    train, test = cut.train_test([1, 3])
    assert {*train.groups} == {0, 2}
    assert [*test.recordings] == [1, 3]
    np.testing.assert_array_equal(
        np.sort([*train.X.ravel(), *test.X.ravel()]), np.sort(cut.X.ravel())
    )
    with pytest.raises(ValueError):
        windows([signal(9)] * 2, None, 9, 9, groups=["eve", "eve"]).train_test([0])


def test_steps_are_means_over_windows():
    recordings = {"a": signal(40), "b": signal(23)}
    cut = windows(recordings, None, 10, 4)
    proba = RNG.dirichlet([1, 1, 1], size=len(cut))
    steps = cut.steps(proba, classes=["x", "y", "z"])
    assert len(steps) == 63
    for row in steps.itertuples():
        over = cut.origins.eval(f"recording == '{row.recording}' & start <= {row.step} < stop")
        if not over.any():
            assert row.label is None
            assert np.isnan(row.confidence)
            continue
        mean = proba[over].mean(axis=0)
        assert row.confidence == pytest.approx(mean.max())
        assert row.label == "xyz"[mean.argmax()]
    assert steps["true"].isna().all()
    assert steps["label"].isna().sum() == 1 + 2  # (40 - 10) % 4 = 2, (23 - 10) % 4 = 1


@pytest.mark.parametrize(
    ("labels", "least", "expected"),
    [
        ("aaaabaa..bb", 1, [(0, 4, "a"), (4, 5, "b"), (5, 7, "a"), (9, 11, "b")]),
        ("aaaabaa..bb", 2, [(0, 7, "a"), (9, 11, "b")]),
        ("aaaabaa..bb", 3, [(0, 7, "a")]),  # no event touches the last
        ("aaaabbcccc.", 3, [(0, 6, "a"), (6, 10, "c")]),
        ("aaaa|b|aaaa", 2, [(0, 4, "a"), (5, 9, "a")]),  # pauses on both sides
        ("...........", 2, []),
    ],
)
def test_short_events_join_their_longest_neighbour(labels, least, expected):
    texts, ends = labels.replace("|", ""), np.cumsum([*map(len, labels.split("|"))])
    index = pd.RangeIndex(len(texts))
    recording = Recording("a", signal(len(texts)), index, [], "a", None, ends.tolist(), 1)
    steps = np.array([None if label == "." else label for label in texts], dtype=object)
    assert recording.runs(steps, least) == expected


def test_events_return_to_windows():
    index = pd.date_range(DAY, periods=60, freq="s").delete(range(30, 40))
    labels = ["a"] * 20 + ["b"] * 10 + ["b"] * 5 + [None] * 15
    cut = windows(frame(index), labels, 5, 5)
    events = cut.events(cut.steps(cut.y))
    seconds = [(t - DAY).total_seconds() for t in events[["start", "end"]].to_numpy().ravel()]
    assert seconds == [0, 20, 20, 30, 40, 45]
    assert events["label"].tolist() == [*"abb"]
    assert events["confidence"].tolist() == [1, 1, 1]
    again = windows(frame(index), events, 5, 5)
    pd.testing.assert_frame_equal(again.origins, cut.origins)
    assert again.y.tolist() == cut.y.tolist()
    assert cut.events(cut.steps(cut.y), "8s")["label"].tolist() == [*"ab"]


def test_scores_are_counted():
    labels = ["a"] * 10 + ["b"] * 10 + ["a"] * 10 + [None] * 10
    cut = windows(signal(40), labels, 1, 1)
    assert repr(cut) == f"<{len(cut)} windows of 1 recordings>"
    predicted = [*"a" * 10, *"b" * 4, *"c" * 6, *"a" * 9, "b"]
    scores = cut.scores(cut.steps(predicted))
    assert scores["accuracy"] == pytest.approx(23 / 30)
    assert scores["reached"] == 1
    # Events a, b, c, a, b: b covers 4 of 10 steps, and the last b has no true event.
    assert scores["precision"] == pytest.approx(2 / 5)
    assert scores["recall"] == pytest.approx(2 / 3)
    assert scores["f1"] == pytest.approx(2 * 2 / 8)
    assert cut.scores(cut.steps(predicted), least_iou=0.4)["recall"] == 1
    assert cut.scores(cut.steps(predicted), least_duration=5)["precision"] == pytest.approx(2 / 3)


INTERVALS = pd.DataFrame({"start": [0, 5], "end": [6, 9], "label": ["a", "b"]})
TIMED = frame(pd.date_range(DAY, periods=50, freq="s"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((signal(), None, 101, 1), "length=101"),
        ((signal(), ["a"] * 99, 10, 5), "99"),
        ((TIMED, INTERVALS.iloc[1:], 10, 5), "intervals"),
        ((signal(), INTERVALS, 10, 5), "overlap"),
        ((signal(), INTERVALS.assign(end=-1), 10, 5), "start"),
        ((signal(), None, 10, 0), "stride"),
        (([], [], 10, 5), "empty"),
        ((signal()[None], None, 10, 5), "recording 0"),
        ((signal(), None, "10s", 5), "length='10s'"),
        ((TIMED, None, 10, "1ms"), "stride='1ms'"),
        ((TIMED, None, 10, 5, {"pause": 3}), "pause=3"),
        ((TIMED[::-1], None, 10, 5), "step 0"),
        ((frame(pd.Index([*range(20), np.inf])), None, 10, 5), "finite"),
        ((signal(), [None] * 100, 10, 5), "least_share"),
        ((signal().T, None, 10, 5), r"\(channels, steps\)"),
        (({"a": signal()}, {"b": 1}, 10, 5), "'a'"),
        (([signal(), signal(9, 3)], None, 5, 5), "channels"),
        ((pd.concat([TIMED, TIMED]).sort_index(), None, 10, 5), "increase"),
        ((TIMED, "lable", 10, 5), "'lable'"),
        ((TIMED.assign(who=TIMED["x"] > 5), None, 10, 5, {"groups": "who"}), "groups"),
    ],
)
def test_bad_input_is_an_error_of_one_line(arguments, problem):
    with pytest.raises(ValueError, match=problem) as error:
        windows(*arguments[:4], **dict(*arguments[4:]))
    assert "\n" not in str(error.value)
