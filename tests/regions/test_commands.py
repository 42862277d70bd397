"""Commands on regions: which database they use, and what they say about one that is down."""

import json
import re
import urllib.request
from typing import Literal

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from tests.cli.conftest import Cli, send, until
from tests.facts import missing
from tests.regions.conftest import Regions, written
from tests.regions.residence import tables_with

DOWN = "postgresql://ann:s3cret@127.0.0.1:1/nothing"


def count(url: str, table: Literal["queue", "engines"]) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(f"SELECT count(*) FROM fairpost.{table}").fetchone()
    assert row is not None
    return int(row[0])


def queued(url: str) -> int:
    return count(url, "queue")


def test_the_region_that_is_chosen_gets_the_mail(regions: Regions) -> None:
    send(regions.cli("us"))
    assert {name: queued(url) for name, url in regions.all_urls.items()} == {"eu": 0, "us": 1, "ap": 0, "home": 0}


def test_without_a_region_no_command_guesses(regions: Regions) -> None:
    which = ("eu, us, ap", "FAIRPOST_REGION=eu")
    wrong = regions.cli().wrong_errors(
        [
            (("email", "send", "--to", "a@b.test", "--subject", "s", "--text", "t"), which),
            (("status",), which),
            (("work",), which),
            (("up",), which),
            (("workspace", "add", "third"), which),
            (("member", "list", "--workspace", "acme"), which),
            (("audit", "acme"), which),
            (("work", "--region", "mars"), ("mars", "eu, us, ap")),
            (("region", "place", "other", "mars"), ("mars", "eu, us, ap")),
        ]
    )
    assert wrong == []
    assert [queued(url) for url in regions.all_urls.values()] == [0, 0, 0, 0]


def test_regions_are_listed_with_what_can_be_seen_of_them(regions: Regions, blank_url: str) -> None:
    send(regions.cli("us"))
    some = Regions({**regions.urls, "new": blank_url, "far": DOWN}, regions.home_url, regions.home)
    found = {each["name"]: each for each in some.cli().json("region", "list")}
    assert list(found) == ["eu", "us", "ap", "new", "far"]
    assert (found["us"]["answers"], found["us"]["pending"], found["us"]["queued"], found["us"]["engines"]) == (
        True,
        [],
        1,
        0,
    )
    assert found["new"]["pending"][0] == "0001 core"
    assert (found["far"]["answers"], found["far"]["place"], found["far"]["queued"]) == (
        False,
        "127.0.0.1:1/nothing",
        None,
    )
    shown = some.cli().ok("region", "list")
    assert "fairpost db migrate --region new" in shown
    assert "s3cret" not in shown + str(found)


def test_without_regions_the_only_one_is_main(cli: Cli) -> None:
    (only,) = cli.json("region", "list")
    assert (only["name"], only["answers"], only["pending"]) == ("main", True, [])


def test_a_region_that_is_down_is_named_and_its_password_is_not(regions: Regions) -> None:
    some = Regions({**regions.urls, "far": DOWN}, regions.home_url, regions.home)
    said = some.cli("far").error("status")
    assert missing(said, "far", "127.0.0.1:1/nothing") == []
    assert "s3cret" not in said
    assert "s3cret" not in some.cli("far").ok("settings")
    assert some.cli("eu").json("status")["queue"]["waiting"] == 0


def test_migrating_reaches_the_region_that_is_meant(regions: Regions, blank_url: str) -> None:
    some = Regions({"eu": regions.urls["eu"], "new": blank_url}, regions.home_url, regions.home)
    assert "fairpost db migrate --region new" in some.cli("new").error("status")
    assert "0001 core" not in some.cli().ok("db", "migrate"), "home has nothing to do"
    assert "0001 core" in some.cli().ok("db", "migrate", "--region", "new")
    assert some.cli("new").json("status")["queue"]["waiting"] == 0
    assert "0001 core" not in some.cli("new").ok("db", "migrate")


def test_migrating_all_does_what_can_be_done_and_names_the_rest(regions: Regions, blank_url: str) -> None:
    some = Regions({"far": DOWN, "new": blank_url}, regions.home_url, regions.home)
    result = CliRunner().invoke(app, ["db", "migrate", "--all-regions"], env=some.cli().environment)
    assert result.exit_code == 1
    home, _, new = result.stdout.partition("new:")
    assert "0001 core" not in home
    assert "0001 core" in new
    assert missing(result.stderr, "far", "127.0.0.1:1/nothing") == []
    assert "s3cret" not in result.output
    whole = Regions({"new": blank_url}, regions.home_url, regions.home)
    assert [each["trouble"] for each in whole.cli().json("db", "migrate", "--all-regions")] == [None, None]
    both = whole.cli().error("db", "migrate", "--all-regions", "--region", "new")
    assert missing(both, "--region", "--all-regions") == []


def test_workspaces_are_placed_from_any_region_into_the_home_database(regions: Regions) -> None:
    assert missing(regions.cli("us").ok("region", "place", "acme", "eu"), "acme", "eu") == []
    assert regions.cli().ok("region", "of", "acme").strip() == "eu"
    assert [p["workspace"] for p in regions.cli().json("region", "workspaces", "--region", "eu")] == ["acme"]
    wrong = regions.cli().wrong_errors(
        [
            (("region", "place", "acme", "us"), ("acme", "eu", "us")),
            (("region", "place", "ann@there.test", "eu"), ("WORKSPACE", "1 to 100")),
        ]
    )
    assert wrong == []
    assert [(p["workspace"], p["region"]) for p in regions.cli().json("region", "workspaces")] == [("acme", "eu")]
    with psycopg.connect(regions.urls["us"]) as conn:
        assert conn.execute("SELECT count(*) FROM fairpost.directory").fetchone() == (0,)


def test_a_workspace_is_placed_when_it_is_added_and_lives_nowhere_else(regions: Regions) -> None:
    for _ in range(2):
        assert "acme" in regions.cli("eu").ok("workspace", "add", "acme")
    assert [each["name"] for each in regions.cli("eu").json("workspace", "list")] == ["acme", "default"]
    assert regions.cli().ok("region", "of", "acme").strip() == "eu"
    assert missing(regions.cli("us").error("workspace", "add", "acme"), "acme", "eu") == []
    assert [each["name"] for each in regions.cli("us").json("workspace", "list")] == ["default"]
    assert "other" in regions.cli("us").ok("workspace", "add", "other")
    assert "fairpost" in regions.cli("us").error("workspace", "add", "fairpost")
    assert [p["workspace"] for p in regions.cli().json("region", "workspaces")] == ["acme", "other"]
    assert regions.cli("eu").json("key", "add", "--workspace", "acme")["key"].startswith("fp_eu_")


def test_one_that_was_placed_before_is_added_where_it_lives(regions: Regions) -> None:
    regions.cli().ok("region", "place", "acme", "us")
    assert missing(regions.cli("eu").error("workspace", "add", "acme"), "acme", "us") == []
    assert [each["name"] for each in regions.cli("eu").json("workspace", "list")] == ["default"]
    regions.cli("us").ok("workspace", "add", "acme")
    assert [each["name"] for each in regions.cli("us").json("workspace", "list")] == ["acme", "default"]


def test_a_region_that_is_down_has_no_workspace_placed_in_it(regions: Regions) -> None:
    some = Regions({**regions.urls, "far": DOWN}, regions.home_url, regions.home)
    assert missing(some.cli("far").error("workspace", "add", "acme"), "far", "127.0.0.1:1/nothing") == []
    assert some.cli().json("region", "workspaces") == []


@pytest.mark.parametrize("region", ["us", None])
def test_admins_are_invited_at_home_whichever_region_is_chosen(regions: Regions, region: str | None) -> None:
    offered = regions.cli(region).json("admin", "invite", "ann@example.com", "--send")
    assert "token=" in offered["link"]
    assert "." not in offered["link"].partition("token=")[2]
    assert [each["address"] for each in regions.cli("ap").json("admin", "list")] == ["ann@example.com"]
    assert "token=" in regions.cli("eu").json("admin", "reset", "ann@example.com")["link"]
    assert regions.cli("eu").json("admin", "sessions", "ann@example.com") == []
    found = [name for name, url in regions.all_urls.items() if tables_with(url, "ann@example.com")]
    assert found == ["home"]
    changes = [each["action"] for each in regions.cli(region).json("audit")]  # of the home database
    assert changes == ["admin.reset", "admin.invite"]


def test_members_are_invited_in_their_region_and_links_name_it(regions: Regions) -> None:
    regions.cli("us").ok("workspace", "add", "acme")
    offered = regions.cli("us").json("member", "add", "--workspace", "acme", "bob@example.com", "--send")
    assert "/invitation?token=us." in offered["link"]
    assert (
        "/reset?token=us."
        in regions.cli("us").json("member", "reset", "--workspace", "acme", "bob@example.com")["link"]
    )
    with psycopg.connect(regions.urls["us"]) as conn:
        ((text,),) = conn.execute("SELECT c.text_body FROM fairpost.contents c").fetchall()
    assert "/invitation?token=us." in text
    assert "acme" in regions.cli("eu").error("member", "add", "--workspace", "acme", "bob@example.com")
    found = [name for name, url in regions.all_urls.items() if tables_with(url, "bob@example.com")]
    assert found == ["us"]


def test_audit_is_the_regions_of_a_workspace_and_homes_of_the_installation(regions: Regions) -> None:
    regions.cli("us").ok("workspace", "add", "acme")
    assert [each["action"] for each in regions.cli("us").json("audit", "acme")] == ["workspace.add"]
    with psycopg.connect(regions.home_url) as conn:
        conn.execute("INSERT INTO fairpost.audit (at, who, action, subject) VALUES (now(), 'x', 'admin.enable', 'y')")
    assert [each["action"] for each in regions.cli("us").json("audit")] == ["admin.enable"]
    assert [each["action"] for each in regions.cli().json("audit")] == ["admin.enable"]


@pytest.mark.slow
def test_up_serves_all_regions_and_sends_the_mail_of_the_chosen_one(regions: Regions) -> None:
    process = Cli(regions.environment("eu")).start("up")
    assert process.stdout is not None
    try:
        said = ""
        while "/setup?token=" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        found = re.search(r"(http://\S+)/setup", said)
        assert found, said
        with urllib.request.urlopen(f"{found[1]}/readyz", timeout=150) as answer:
            assert json.load(answer)["data"]["regions"] == {"eu": True, "us": True, "ap": True}
        until(lambda: engines(regions) == {"eu": 1, "us": 0, "ap": 0, "home": 0}, "the engine of eu is there")
    finally:
        process.terminate()
        out, err = process.communicate(timeout=150)
    assert process.returncode == 0, out + err


def engines(regions: Regions) -> dict[str, int]:
    return {name: count(url, "engines") for name, url in regions.all_urls.items()}


def test_a_region_may_be_the_home_database_itself(regions: Regions) -> None:
    same = Regions({"eu": regions.home_url, "us": regions.urls["us"]}, regions.home_url, regions.home)
    send(same.cli("eu"))
    assert same.cli("eu").json("status")["queue"]["waiting"] == 1
    assert queued(regions.home_url) == 1


def test_the_key_file_of_several_regions_is_not_replaced_for_one_of_them(regions: Regions) -> None:
    regions.cli("eu").ok(
        "account", "add", "sales", "--from", "s@post.test", "--smtp", "smtp+starttls://ann:pw@smtp.test"
    )
    assert "FAIRPOST_SECRET_KEY" in regions.cli("eu").error("secrets", "rotate")


@pytest.mark.parametrize("region", ["eu", None])
def test_the_address_of_a_database_follows_the_region(regions: Regions, region: str | None) -> None:
    wanted = regions.urls[region] if region else regions.home_url
    assert regions.cli(region).ok("db", "url").strip() == wanted
    assert written(regions.urls).count("=postgresql") == 3
