"""Recipes and the command line: one experiment, one file."""

if __name__ != "tfx_transformer.train":
    raise ImportError(f"import this folder as tfx_transformer.train, not as {__name__}")
