"""Experiments: recipes, tasks and the command line."""

if __name__ != "tfx_transformer.train":
    raise ImportError(f"import this folder as tfx_transformer.train, not as {__name__}")
