"""Errors that a server reports to its clients: an HTTP status and a gRPC status code for each."""


class ServingError(Exception):
    """An expected failure of one request.

    Attributes:
        status: of HTTP.
        code: name of the gRPC status code.
        retry_after: seconds after which a client may try again; None if that is useless.
    """

    status = 500
    code = "INTERNAL"
    retry_after: int | None = None


class InvalidRequest(ServingError):
    """The request cannot be answered as it is."""

    status, code = 400, "INVALID_ARGUMENT"


class NotFound(ServingError):
    """There is no such model, version or signature."""

    status, code = 404, "NOT_FOUND"


class TooLarge(ServingError):
    """The request is above a limit of the server."""

    status, code = 413, "INVALID_ARGUMENT"


class Overloaded(ServingError):
    """Too many requests are waiting."""

    status, code, retry_after = 429, "RESOURCE_EXHAUSTED", 1


class Unavailable(ServingError):
    """The model is being loaded, or the server stops."""

    status, code, retry_after = 503, "UNAVAILABLE", 1


class DeadlineExceeded(ServingError):
    """The request was not answered in time."""

    status, code = 504, "DEADLINE_EXCEEDED"
