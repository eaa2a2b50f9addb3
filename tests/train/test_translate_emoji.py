from tfx_transformer.models import create_model
from tfx_transformer.train import translate_emoji
from tfx_transformer.train.run import load_splits


def test_the_docstring_says_how_long_and_how_good():
    for word in ("Run:", "Time:", "Result:"):
        assert word in translate_emoji.__doc__


def test_the_model_can_be_built():
    recipe = translate_emoji.RECIPE
    model = create_model(
        recipe.model.name, recipe.model.variant, vocab_size=100, **recipe.model.overrides()
    )
    model.build({"source": (None, None), "target": (None, None)})
    assert model.count_params() > 100_000


def test_the_embedded_data_has_all_splits():
    splits = load_splits(translate_emoji.RECIPE.data)
    assert [len(splits[name]) > 100 for name in ("train", "validation", "test")] == [True] * 3
    assert not set(splits["train"].source) & set(splits["test"].source)
