"""A refusal as OpenAI's clients read it: a status, and a JSON object with message, type, param and code."""

from typing import Any

from omnidraft.errors import BundleError, ContextError, OmnidraftError, SessionError, SettingError, shown


class ApiError(Exception):
    """A request that is refused.

    Attributes:
        status: of HTTP.
        message: one sentence with the value and the remedy.
        param: the field of the request; None where it is of none.
        code: the name of what is wrong, for programs; None where the status says it.
        retry_after: seconds after which the request may be sent again; None for no such advice.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, shown(message), param, code
        self.retry_after = retry_after

    @property
    def body(self) -> dict[str, Any]:
        """The JSON object."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(self.status, kind)
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code},
        }

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


def of_refusal(error: OmnidraftError, length_field: str) -> ApiError:
    """A refusal of a session.

    Args:
        length_field: the field of the request that sets the number of output tokens.
    """
    message = str(error).replace("max_new_tokens", length_field)
    if isinstance(error, BundleError | SessionError):
        return ApiError(500, message)
    if isinstance(error, ContextError):
        return ApiError(400, message, code="context_length_exceeded")
    setting = error.setting if isinstance(error, SettingError) else ""
    param = length_field if setting == "max_new_tokens" else setting or None
    return ApiError(400, message, param=param)
