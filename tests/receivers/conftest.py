"""One receiver for all tests of this folder. Each test has its own database, and finds its mail by address."""

from collections.abc import Iterator

import httpx2 as httpx
import pytest

from tests.api.conftest import Api
from tests.api.conftest import api as api
from tests.api.conftest import client as client
from tests.api.conftest import settings as settings
from tests.peers.certificates import Certificates, make_certificates
from tests.peers.fetch import PeerMissing
from tests.peers.receiver import Receiver, receiver
from tests.receivers.sending import Shop


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def there(certificates: Certificates) -> Iterator[Receiver]:
    try:
        with receiver(tls=certificates.good) as running:
            yield running
    except PeerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
async def shop(api: Api, client: httpx.AsyncClient, url: str, there: Receiver, certificates: Certificates) -> Shop:
    return await Shop.opened(api, client, url, there, certificates)
