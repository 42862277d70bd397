"""The notation of regions, and which region a command uses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.errors import NotFound, SettingsError
from fairpost.regions.directory import Directory, Region, hidden, parse_regions
from fairpost.settings import Settings, read_settings

TWO = "eu=postgresql://ann:s3cret@eu.test:5433/post,us=postgresql://us.test/post"


def settings(**variables: str) -> Settings:
    return read_settings({f"FAIRPOST_{name.upper()}": value for name, value in variables.items()})


def test_regions_are_found_by_name_in_the_order_in_which_they_are_written() -> None:
    found = settings(regions=TWO).regions
    assert found is not None
    assert found.names == ("eu", "us")
    assert found.url("us") == "postgresql://us.test/post"
    with pytest.raises(NotFound, match=r"'ap'.*eu, us"):
        found.url("ap")


def test_a_file_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "regions.toml"
    file.write_text('[regions]\neu = "postgresql://ann:s3cret@eu.test:5433/post"\nus = "postgresql://us.test/post"\n')
    assert settings(regions=str(file)).regions == settings(regions=TWO).regions


@pytest.mark.parametrize(
    "text",
    [
        "EU=postgresql://h/d",
        "1=postgresql://h/d",
        "eu=postgresql://h/d,home=postgresql://h/e",
        f"{'e' * 32}=postgresql://h/d",
        "eu=mysql://h/d",
        "eu=postgresql://h/d,eu=postgresql://h/e",
        "eu=postgresql://h/d,us=postgresql://h/d",
        "postgresql://h/d",
        "eu",
        "/nonexistent/regions.toml",
    ],
)
def test_an_invalid_region_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"FAIRPOST_REGIONS.*eu=postgresql://"):
        settings(regions=text)


@pytest.mark.parametrize("content", ["regions = 3", "[regions]\neu = 3", "[regions]", "not TOML", "[other]\nx = 1"])
def test_a_file_that_says_something_else_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text(content)
    with pytest.raises(SettingsError, match="FAIRPOST_REGIONS"):
        settings(regions=str(tmp_path / "file.toml"))


def test_one_url_may_have_several_hosts() -> None:
    found = parse_regions("eu=postgresql://h1:1,h2:2/d, us=postgresql://h3/d")
    assert found is not None
    assert [(r.name, r.place) for r in found] == [("eu", "h1:1,h2:2/d"), ("us", "h3/d")]


# Percent-encoded, as required in a URL, or not, as people write it.
PASSWORDS = st.text(st.sampled_from("sS3/@:?#,=&%"), min_size=1).map(lambda tail: f"geheim{tail}")


@given(
    PASSWORDS,
    st.sampled_from(
        [
            "eu=postgresql://ann:{}@h/d",
            "eu=mysql://ann:{}@h/d",
            "eu=postgresql:///d?password={}",
            "eu=postgresql:/ann:{}@h/d",
        ]
    ),
)
def test_no_password_is_ever_shown(password: str, form: str) -> None:
    text = form.format(password)
    shown = hidden(text)
    found = parse_regions(text)
    if found:
        shown += f"{found}{list(found)}{found.region('eu').place}"
    assert "geheim" not in shown


def test_without_regions_there_is_one_called_main() -> None:
    alone = settings(database_url="postgresql://h/d")
    assert (alone.regions, alone.region_name) == (None, "main")
    assert alone.at("main").database_url == "postgresql://h/d"
    assert settings(region="main", database_url="postgresql://h/d").database_url == "postgresql://h/d"
    with pytest.raises(SettingsError, match=r"'eu'.*main"):
        settings(region="eu")


def test_a_region_that_is_chosen_is_the_database_and_home_stays_known() -> None:
    chosen = settings(regions=TWO, region="us", database_url="postgresql://home/d")
    assert chosen.database_url == "postgresql://us.test/post"
    assert chosen.at_home().database_url == chosen.home_database_url == "postgresql://home/d"
    assert chosen.at("eu").at_home() == chosen.at_home()
    with pytest.raises(SettingsError, match="'ap'"):
        settings(regions=TWO, region="ap")


def test_a_directory_is_a_value() -> None:
    one, other = Directory([Region("eu", "postgresql://h/d")]), Directory([Region("eu", "postgresql://h/d")])
    assert one == other
    assert hash(one) == hash(other)
    assert len(one) == 1
