"""The service and the clients of tests/api."""

from tests.api.conftest import api as api
from tests.api.conftest import client as client
from tests.api.conftest import settings as settings
