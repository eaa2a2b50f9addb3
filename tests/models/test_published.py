"""Published facts about each model; the largest variants are tested with their models."""

import pytest

from tfx_transformer.models import MODELS, create_model

SMALL = [
    (name, variant)
    for name, model in MODELS.items()
    for variant, count in model.published.counts.items()
    if count < 30_000_000
]


def test_every_model_has_its_papers():
    for model in MODELS.values():
        published = model.published
        assert published.papers
        assert published.counts.keys() <= model.variants.keys()
        assert published.variant_options.keys() <= published.counts.keys()


@pytest.mark.parametrize("name, variant", SMALL)
def test_small_variants_have_the_listed_parameter_count(name, variant):
    published = MODELS[name].published
    model = create_model(name, variant, **published.options_of(variant))
    assert model.count_params() == published.counts[variant]
