"""Serving: models behind the REST and gRPC protocols of TensorFlow Serving, and a page to try them.

    tfx-transformer serve served/translator served/classifier

`Repository` holds the models by name and version, `ServedModel` is one version of one model, whose
requests are computed in batches. The HTTP and gRPC servers only translate requests into calls of
`ServedModel.predict`.
"""
