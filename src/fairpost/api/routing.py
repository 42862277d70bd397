"""Routes that are built when they are first needed.

To build one, the framework reads its signature and makes validators of its parameters, body and answer. For all of them
that takes a second or more at every start of a process, and most processes are asked for a few.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import compile_path

_building = RLock()  # services in several threads share their routes


class LateRoute(APIRoute):
    """Knows its path and methods; the rest is made at the first request, or when it is described."""

    def __init__(self, path: str, endpoint: Callable[..., Any], *, methods: Any = None, **more: Any) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in methods or ["GET"]}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._left_out = more

    def __getattr__(self, name: str) -> Any:
        """What is not there yet."""
        with _building:
            if (more := self.__dict__.pop("_left_out", None)) is not None:
                super().__init__(self.path, self.endpoint, methods=self.methods, **more)
                self.operation_id = operation_id(self.name)
            return self.__getattribute__(name)


def operation_id(name: str) -> str:
    """A function `list_emails` is the operation `listEmails`: an identifier in the languages that clients are generated for."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Router(APIRouter):
    def __init__(self, **more: Any) -> None:
        super().__init__(route_class=LateRoute, **more)
