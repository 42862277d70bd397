from tests.api.conftest import api as api
from tests.api.conftest import settings as settings
