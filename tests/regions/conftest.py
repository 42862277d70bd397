"""Three regions and a home, each with its own database."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from tests.cli.conftest import no_settings_of_ours as no_settings_of_ours
from tests.conftest import Databases

NAMES = ("eu", "us", "ap")


@dataclass(frozen=True)
class Regions:
    urls: dict[str, str]
    home_url: str
    home: Path

    @property
    def all_urls(self) -> dict[str, str]:
        return {**self.urls, "home": self.home_url}

    def environment(self, region: str | None = None) -> dict[str, str]:
        chosen = {"FAIRPOST_REGION": region} if region else {}
        return {
            "FAIRPOST_HOME": str(self.home),
            "FAIRPOST_DATABASE_URL": self.home_url,
            "FAIRPOST_REGIONS": written(self.urls),
            **chosen,
        }

    def cli(self, region: str | None = None) -> Cli:
        return Cli({**self.environment(), "FAIRPOST_REGION": region or ""})


def written(urls: dict[str, str]) -> str:
    return ",".join(f"{name}={url}" for name, url in urls.items())


@contextmanager
def made_regions(databases: Databases, home: Path) -> Iterator[Regions]:
    with ExitStack() as stack:
        urls = {name: stack.enter_context(databases.new()) for name in NAMES}
        home_url = stack.enter_context(databases.new())
        yield Regions(urls, home_url, home)


@pytest.fixture
def regions(databases: Databases, tmp_path: Path) -> Iterator[Regions]:
    with made_regions(databases, tmp_path / "home") as regions:
        yield regions


@pytest.fixture(scope="session")
def lasting_regions(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Regions]:
    """For tests that write nothing, or remove what they wrote."""
    with made_regions(databases, tmp_path_factory.mktemp("regions") / "home") as regions:
        yield regions
