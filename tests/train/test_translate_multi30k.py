import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train import translate_multi30k
from tfx_transformer.train.run import load_splits


def test_the_docstring_says_how_long_and_how_good():
    for word in ("Run:", "Time:", "Result:"):
        assert word in translate_multi30k.__doc__


def test_the_model_can_be_built():
    recipe = translate_multi30k.RECIPE
    model = create_model(
        recipe.model.name, recipe.model.variant, vocab_size=100, **recipe.model.overrides()
    )
    model.build({"source": (None, None), "target": (None, None)})
    assert model.count_params() > 100_000


def test_the_files_must_be_given():
    with pytest.raises(ValueError, match="data.train must name a source"):
        load_splits(translate_multi30k.RECIPE.data)
