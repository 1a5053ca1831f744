"""The exception tree: names, status table, text, and pickles without credentials."""

import copy
import inspect
import pickle
import types

import httpx
import pytest

from tinker_ext import errors
from tinker_ext.types.enums import RequestErrorCategory

REQUEST = httpx.Request("POST", "https://user:pw@host/x", headers={"X-API-Key": "tml-secret"})
RESPONSE = httpx.Response(
    400, json={"detail": "no"}, headers={"x-request-id": "r-1"}, request=REQUEST
)

EXAMPLES = [
    errors.TinkerError("plain"),
    errors.APIError("api", REQUEST, body={"a": 1}),
    errors.APIResponseValidationError(RESPONSE, {"a": 1}, "odd"),
    errors.APIStatusError("status", RESPONSE, None),
    *[cls("status", RESPONSE, {"a": 1}) for cls in errors.STATUS_ERRORS.values()],
    errors.InternalServerError("status", RESPONSE, "text"),
    errors.APIConnectionError(REQUEST),
    errors.APITimeoutError(REQUEST),
    errors.RequestFailedError("failed", "r-2", RequestErrorCategory.User),
    errors.FutureExpiredError("gone"),
    errors.DeadlineExceededError("late"),
    errors.StallError("stuck"),
    errors.FeatureMissingError("weights_info", "http://host"),
    errors.WhoamiError("token", "http://host"),
    errors.TraceExportError("no trace"),
    errors.BudgetExceededError("too much"),
    errors.UnsafeToRetryError("unsafe"),
    errors.ClientClosedError("closed"),
    errors.DeadlockError("stuck"),
    errors.SessionEndedError("ended"),
    errors.InvalidInputError("bad"),
    errors.UnknownKeyError("bad key"),
    errors.WrongTypeError("bad type"),
    errors.ConfigurationError("bad setting"),
    errors.TokenizerError("none"),
    errors.DownloadError("none"),
]


def test_examples_cover_the_tree():
    """M38: the list of this file misses no public error class."""
    public = {
        cls
        for name, cls in vars(errors).items()
        if inspect.isclass(cls) and issubclass(cls, errors.TinkerError) and name[0] != "_"
    }
    assert public == {type(example) for example in EXAMPLES}


def test_a_star_import_brings_no_stand_in_of_a_module():
    """M38: it took the place of the program's own `httpx` and `types`."""
    names = {}
    exec("import httpx, types; from tinker_ext.errors import *", names)
    assert (names["httpx"], names["types"]) == (httpx, types)
    assert names["APIStatusError"] is errors.APIStatusError


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_pickle_keeps_everything_but_credentials(error):
    """M38: every error pickles and copies with its context, and no credential travels."""
    error.with_context(operation="op", attempts=3, elapsed=1.5, hint="do this")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        for name in ("operation", "request_id", "attempts", "elapsed", "hint", "message"):
            assert getattr(again, name) == getattr(error, name)
        for name in ("status_code", "body", "category", "feature"):
            assert getattr(again, name, None) == getattr(error, name, None)
    data = pickle.dumps(error)
    assert b"tml-secret" not in data
    assert b"pw@" not in data


def test_unpickled_error_still_has_a_response():
    """M38: response and request are rebuilt from plain parts."""
    again = pickle.loads(pickle.dumps(errors.BadRequestError("m", RESPONSE, None)))
    assert again.response.status_code == 400
    assert again.response.json() == {"detail": "no"}
    assert again.request_id == "r-1"
    assert isinstance(again.request, httpx.Request)
    assert again.request.method == "POST"
    assert str(again.request.url) == "https://host/x"


@pytest.mark.parametrize(
    ("cls", "parent"),
    [
        (errors.APIError, errors.TinkerError),
        (errors.APIStatusError, errors.APIError),
        (errors.APIResponseValidationError, errors.APIError),
        (errors.APIConnectionError, errors.APIError),
        (errors.APITimeoutError, errors.APIConnectionError),
        (errors.APITimeoutError, TimeoutError),
        (errors.RequestFailedError, errors.TinkerError),
        (errors.FutureExpiredError, errors.TinkerError),
        (errors.FutureExpiredError, errors.RetryableException),
        (errors.StallError, TimeoutError),
        (errors.InvalidInputError, ValueError),
        (errors.UnknownKeyError, KeyError),
        (errors.WrongTypeError, TypeError),
        (errors.ConfigurationError, ValueError),
        (errors.ClientClosedError, RuntimeError),
        (errors.DeadlockError, RuntimeError),
        (errors.ExperimentalWarning, FutureWarning),
    ],
)
def test_hierarchy(cls, parent):
    """M38: each class is caught by the official base and by the standard class it stands for."""
    assert issubclass(cls, parent)


class Flavoured:
    """What a user's own errors may have as a second base."""

    def __init_subclass__(cls, flavour: str = "", **others) -> None:
        super().__init_subclass__(**others)
        cls.flavour = flavour


def test_subclass_with_a_base_of_its_own():
    """M38: a class made from one of these and another passes that one its arguments."""

    class Missing(errors.NotFoundError, Flavoured, flavour="sour"):
        pass

    class Teapot(errors.APIStatusError, Flavoured, status=418, flavour="sweet"):
        pass

    assert (Missing.status_code, Missing.flavour) == (404, "sour")
    assert (Teapot.status_code, Teapot.flavour) == (418, "sweet")


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (402, "BillingError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (408, "ServerTimeoutError"),
        (409, "ConflictError"),
        (410, "GoneError"),
        (418, "APIStatusError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (503, "InternalServerError"),
    ],
)
def test_status_table(status, name):
    """M38: one table from status to class."""
    error = errors.error_for_status(status, b'{"detail": "why"}', {"X-Request-Id": "r-9"})
    assert type(error).__name__ == name
    assert error.status_code == error.response.status_code == status
    assert error.body == {"detail": "why"}
    assert error.request_id == "r-9"
    assert "why" in str(error)


def test_text_says_what_where_how_often_and_what_next():
    """M38: the text has the reason, id, attempts, time and hint."""
    error = errors.error_for_status(503, b"<html>down").with_context(
        operation="optim_step", request_id="r-3", attempts=4, elapsed=12.34
    )
    text = str(error)
    for part in ("503", "<html>down", "optim_step", "r-3", "4 attempts over 12.3 s", "Hint: "):
        assert part in text


@pytest.mark.parametrize(
    ("body", "decoded"),
    [
        (b"", None),
        (None, None),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[1]", [1]),
        ({"a": 1}, {"a": 1}),
        ("text", "text"),
    ],
)
def test_any_body(body, decoded):
    """M38: JSON is decoded, other text is kept, nothing crashes."""
    error = errors.error_for_status(500, body)
    assert error.body == decoded
    assert bool(error.response.content) is bool(body)


def test_a_huge_body_is_cut():
    """M38: a page of HTML does not fill the log."""
    assert len(str(errors.error_for_status(502, b"x" * 100_000))) < 3000


@pytest.mark.parametrize("body", [b"\x1b]0;t\x07", b'{"detail": "\\u001b]0;t\\u0007"}'])
def test_what_a_server_says_cannot_steer_a_terminal(body):
    """M38: control characters are shown as their escapes; lines and tabs stay."""
    error = errors.error_for_status(400, body, {"x-request-id": "\x9b2J"})
    assert r"\x1b]0;t\x07" in error.message
    assert str(error).isprintable()
    assert str(errors.TinkerError("one\n\ttwo \x1b[2J\ud800")) == "one\n\ttwo \\x1b[2J\\ud800"


def test_text_of_a_hand_built_error_is_the_message():
    """M38: code and tests written for the official SDK compare the bare message."""
    error = errors.BadRequestError("no such loss", response=httpx.Response(400), body=None)
    assert str(error) == "no such loss"


@pytest.mark.parametrize("category", ["user", "User", "USER", RequestErrorCategory.User])
def test_category_of_any_case(category):
    """M3: the category is read in any letter case."""
    error = errors.RequestFailedError("m", "r", category)
    assert error.category is RequestErrorCategory.User


def test_unknown_category():
    """M3: a category that is not known reads as unknown."""
    error = errors.RequestFailedError("m", "r", "cosmic")
    assert error.category is RequestErrorCategory.Unknown


def test_feature_missing_says_so():
    """M28: the text is "this server has no X"."""
    assert "has no checkpoint archive" in str(errors.FeatureMissingError("checkpoint archive"))


def test_a_body_nested_without_end_is_kept_as_text():
    """M38: an error page of 100,000 brackets is still our error, not a RecursionError."""
    error = errors.error_for_status(502, b"[" * 100_000, {})
    assert isinstance(error, errors.InternalServerError)


def test_the_error_of_a_status_has_its_request_without_a_password():
    """M15 M33: the method and the URL as they were sent; none where the URL is not known."""
    error = errors.error_for_status(404, method="GET", url="https://user:pw@host/x?a=1")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (each.request.method, str(each.request.url)) == ("GET", "https://host/x?a=1")
        assert each.response.request.url == each.request.url
    assert errors.error_for_status(404, url="https://host/x").request.method == "POST"
    assert errors.error_for_status(404, method="GET").request is None
