"""Published facts about each model; the largest variants are tested with their models."""

import pytest

from tfx_transformer.models import MODELS, create_model
from tfx_transformer.models.published import PUBLISHED

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
        assert published.variant_options.keys() <= published.counts.keys()


@pytest.mark.parametrize("name, variant", SMALL)
def test_small_variants_have_the_listed_parameter_count(name, variant):
    model = create_model(name, variant, **PUBLISHED[name].options_of(variant))
    assert model.count_params() == PUBLISHED[name].counts[variant]
