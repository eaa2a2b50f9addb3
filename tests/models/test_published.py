"""What is said of each model; the counts of the largest are tests beside the models."""

import pytest

from tfx_transformer.models import MODELS
from tfx_transformer.models.published import PUBLISHED
from tfx_transformer.train.listing import count_parameters

SMALL = [
    (name, variant)
    for name, published in PUBLISHED.items()
    for variant, count in published.counts.items()
    if count < 30_000_000
]


def test_every_model_has_its_papers():
    assert PUBLISHED.keys() == MODELS.keys()
    for name, published in PUBLISHED.items():
        assert published.papers
        assert published.counts.keys() <= MODELS[name].variants.keys()
        assert published.own.keys() <= published.counts.keys()


@pytest.mark.parametrize("name, variant", SMALL)
def test_small_models_have_the_count_that_is_listed(name, variant):
    published = PUBLISHED[name]
    assert (
        count_parameters(name, variant, published.options_of(variant)) == published.counts[variant]
    )
