"""Options of a server."""

import pytest

from tfx_transformer.serving.options import RayOptions, ServingOptions


def test_allowed_batch_sizes_end_with_the_maximum():
    assert ServingOptions(max_batch_size=1).allowed_batch_sizes == [1]
    assert ServingOptions(max_batch_size=8).allowed_batch_sizes == [1, 2, 4, 8]
    assert ServingOptions(max_batch_size=12).allowed_batch_sizes == [1, 2, 4, 8, 12]


@pytest.mark.parametrize(
    "name, value",
    [("max_batch_size", 0), ("max_waiting", 0), ("deadline", 0.0), ("poll", -1.0)],
)
def test_wrong_values_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}"):
        ServingOptions(**{name: value})


@pytest.mark.parametrize(
    "options",
    [{"replicas": 0}, {"num_cpus": 0.0}, {"replicas": 3, "max_replicas": 2}],
    ids=lambda options: list(options)[-1],
)
def test_wrong_numbers_of_replicas_are_named(options):
    with pytest.raises(ValueError, match=list(options)[-1]):
        RayOptions(**options)
