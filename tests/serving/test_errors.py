"""Errors of a server."""

import inspect

import grpc
import pytest

from tfx_transformer.serving import errors

ERRORS = [x for x in vars(errors).values() if inspect.isclass(x)]


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_has_an_http_status_and_a_grpc_code(error):
    assert 400 <= error.status < 600
    assert hasattr(grpc.StatusCode, error.code)


@pytest.mark.parametrize("error", ERRORS)
def test_a_client_may_try_again_exactly_if_the_server_was_busy(error):
    assert (error.retry_after is not None) == (error.status in (429, 503))
