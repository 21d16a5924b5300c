"""Intervals over images and few trainings, computed by hand."""

import numpy as np
import pytest

from negcap.pipelines.models import figures

SURE = np.full(2, 10.0)  # bootstrap samples over images that are all the same
UNSURE = np.array([10 - 0.5**0.5, 10 + 0.5**0.5])  # of variance 1


@pytest.mark.parametrize(("values", "samples", "half"), [
    ((9.0, 10.0, 11.0), SURE, 4.302653 * (1 / 3) ** 0.5),  # v = 1 / 3, w = 0: ν = 2
    ((9.0, 11.0), SURE, 12.706205),  # v = 2 / 2, w = 0: ν = 1
    ((9.0, 11.0), UNSURE, 2.776445 * 2**0.5),  # v = 1, w = 1: ν = 2² / (1² / 1) = 4
    ((10.0, 10.0, 10.0), UNSURE, 1.959964),  # v = 0, w = 1: ν is infinite
])  # fmt: skip
def test_an_interval_over_images_and_trainings_is_welchs(values, samples, half):
    figure = figures.MetricOfTrainings(np.array(values), samples).figure()
    assert figure.value == 10.0
    assert figure.interval == pytest.approx((10 - half, 10 + half), rel=1e-5)


def test_of_one_training_the_interval_is_over_images_alone() -> None:
    counts = np.array([[1.0], [0.0], [1.0], [1.0]])
    samples = figures.bootstrap(counts, np.ones_like(counts), seed=0)
    assert samples.mean() == pytest.approx(75.0, abs=2) and samples.var(ddof=1) == pytest.approx(1e4 * 3 / 64, rel=0.1)
    interval = figures.MetricOfTrainings(np.array([75.0]), samples[:, 0]).figure().interval
    assert interval == figures.percentile_interval(samples[:, 0])


def test_names_of_points_cover_neither_points_nor_names() -> None:
    points = np.random.default_rng(0).normal(size=(80, 2))
    figure = figures.new_figure(6, 6)
    axes = figure.subplots()
    axes.scatter(*points.T)
    figures.label_points(axes, points, ["a name"] * 80, ["black"] * 80, size=9)
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 20 < len(boxes) < 80
    assert not any(box.count_overlaps(boxes[:number]) for number, box in enumerate(boxes))
    assert not any(box.contains(*point) for box in boxes for point in axes.transData.transform(points))


def test_the_interval_of_all_or_no_hits_is_wilsons_over_the_images_with_cases() -> None:
    counts = np.array([[2.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    every, none, some = figures.ratios_with_intervals(counts, np.array([[2.0], [1.0], [0.0]]), seed=0)
    z = 1.96
    limit = 100 * z**2 / (2 + z**2)  # of 2 images: the third has no case
    assert every.value == 100 and every.interval == pytest.approx((100 - limit, 100), rel=1e-5)
    assert none.value == 0 and none.interval == pytest.approx((0, limit), rel=1e-5)
    assert some.value == pytest.approx(100 / 3) and some.interval == (0, 50)  # 1 of 2, or 0 of 1
