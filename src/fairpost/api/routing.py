"""Routes that are built on first use.

To build a route, the framework reads its signature and creates validators for its parameters, body and response.
Building all routes takes a second or more in every new process, but most processes need only a few."""

from collections.abc import Callable
from threading import RLock
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import compile_path

_building = RLock()  # services in several threads share routes


class LateRoute(APIRoute):
    """A route that initially has only its path and methods. Everything else is built for the first request or for the
    OpenAPI document.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], *, methods: Any = None, **more: Any) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in methods or ["GET"]}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._left_out = more

    def __getattr__(self, name: str) -> Any:
        """Builds the route when an attribute is missing."""
        with _building:
            if (more := self.__dict__.pop("_left_out", None)) is not None:
                super().__init__(self.path, self.endpoint, methods=self.methods, **more)
                self.operation_id = operation_id(self.name)
            return self.__getattribute__(name)


def operation_id(name: str) -> str:
    """Converts a function name to an operation ID: `list_emails` becomes `listEmails`. Such IDs are valid
    identifiers in all languages for which clients are generated.
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Router(APIRouter):
    def __init__(self, **more: Any) -> None:
        super().__init__(route_class=LateRoute, **more)
