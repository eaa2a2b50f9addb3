"""The model zoo: one file, one paper. Add a model: its file, its line below, its test."""

if __name__ != "tfx_transformer.models":
    raise ImportError(f"import this folder as tfx_transformer.models, not as {__name__}")
