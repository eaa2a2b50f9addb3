from tfx_transformer.train import caption_flickr8k


def test_the_recipe_is_whole(check_recipe):
    encoder, decoder = 3_413_024, 3_330_662
    assert check_recipe(caption_flickr8k) == encoder + decoder
    recipe = caption_flickr8k.RECIPE
    assert recipe.model.freeze is None and recipe.weights == "package"  # with weights it is frozen
    assert recipe.data.normalisation == "half"  # as the encoders of REGIONS want it
