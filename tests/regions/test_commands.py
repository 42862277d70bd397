"""Commands on regions: which database they work on, and what they say of one that is down."""

import json
import re
import urllib.request

import psycopg
import pytest

from fairpost.postgres.embedded import EmbeddedServer
from tests.cli.conftest import Cli, new_home, send
from tests.regions.conftest import Regions, written
from tests.regions.residence import tables_with

DOWN = "postgresql://ann:s3cret@127.0.0.1:1/nothing"


def queued(url: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT count(*) FROM fairpost.queue").fetchone()
    assert row is not None
    return int(row[0])


def test_the_region_that_is_chosen_gets_the_mail(regions: Regions) -> None:
    send(regions.cli("us"))
    assert {name: queued(url) for name, url in regions.all_urls.items()} == {"eu": 0, "us": 1, "ap": 0, "home": 0}


def test_without_a_region_no_command_guesses(regions: Regions) -> None:
    for arguments in (("email", "send", "--to", "a@b.test", "--subject", "s", "--text", "t"), ("status",), ("work",)):
        said = regions.cli().run(*arguments, code=1)
        assert "Say which region is meant: FAIRPOST_REGION=eu" in said
    assert "There is no region 'mars'; there is eu, us, ap" in regions.cli().run("work", "--region", "mars", code=1)
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
    assert "to do: fairpost db migrate --region new" in shown
    assert "no: " in shown
    assert "s3cret" not in shown + str(found)


def test_without_regions_the_only_one_is_main(cli: Cli) -> None:
    (only,) = cli.json("region", "list")
    assert (only["name"], only["answers"], only["pending"]) == ("main", True, [])


def test_a_region_that_is_down_is_named_and_its_password_is_not(regions: Regions) -> None:
    some = Regions({**regions.urls, "far": DOWN}, regions.home_url, regions.home)
    said = some.cli("far").error("status")
    assert "Region far does not answer: 127.0.0.1:1/nothing" in said
    assert "s3cret" not in said
    assert "s3cret" not in some.cli("far").ok("settings")
    assert some.cli("eu").json("status")["queue"]["waiting"] == 0


def test_migrating_reaches_the_region_that_is_meant(regions: Regions, blank_url: str) -> None:
    some = Regions({"eu": regions.urls["eu"], "new": blank_url}, regions.home_url, regions.home)
    assert "Run: fairpost db migrate --region new" in some.cli("new").error("status")
    assert "nothing to do" in some.cli().ok("db", "migrate")
    assert "applied 0001 core" in some.cli().ok("db", "migrate", "--region", "new")
    assert some.cli("new").json("status")["queue"]["waiting"] == 0
    assert "nothing to do" in some.cli("new").ok("db", "migrate")


def test_migrating_all_does_what_can_be_done_and_names_the_rest(regions: Regions, blank_url: str) -> None:
    some = Regions({"far": DOWN, "new": blank_url}, regions.home_url, regions.home)
    said = some.cli().run("db", "migrate", "--all-regions", code=1)
    assert "home:\nnothing to do" in said
    assert "new:\napplied 0001 core" in said
    assert "Not done in far: " in said
    assert "s3cret" not in said
    whole = Regions({"new": blank_url}, regions.home_url, regions.home)
    assert [each["trouble"] for each in whole.cli().json("db", "migrate", "--all-regions")] == [None, None]
    assert "Give one of the two" in whole.cli().error("db", "migrate", "--all-regions", "--region", "new")


def test_workspaces_are_placed_from_any_region_into_the_home_database(regions: Regions) -> None:
    assert "acme lives in eu" in regions.cli("us").ok("region", "place", "acme", "eu")
    assert regions.cli().ok("region", "of", "acme").strip() == "eu"
    assert [p["workspace"] for p in regions.cli().json("region", "workspaces", "--region", "eu")] == ["acme"]
    assert "moving it is not offered" in regions.cli().error("region", "place", "acme", "us")
    assert "There is no region 'mars'" in regions.cli().error("region", "place", "other", "mars")
    assert "must be 1..100 of a-z" in regions.cli().error("region", "place", "ann@there.test", "eu")
    with psycopg.connect(regions.urls["us"]) as conn:
        assert conn.execute("SELECT count(*) FROM fairpost.directory").fetchone() == (0,)


def test_a_workspace_is_placed_when_it_is_added_and_lives_nowhere_else(regions: Regions) -> None:
    assert "added acme" in regions.cli("eu").ok("workspace", "add", "acme")
    assert "there is already acme" in regions.cli("eu").ok("workspace", "add", "acme")
    assert regions.cli().ok("region", "of", "acme").strip() == "eu"
    said = regions.cli("us").error("workspace", "add", "acme")
    assert "The workspace acme lives in eu, with all its e-mails; moving it is not offered" in said
    assert regions.cli("us").json("workspace", "list") == []
    assert regions.cli("us").ok("workspace", "add", "other").startswith("added other")
    assert "Say which region is meant" in regions.cli().error("workspace", "add", "third")
    assert "cannot be the name" in regions.cli("us").error("workspace", "add", "fairpost")
    assert [p["workspace"] for p in regions.cli().json("region", "workspaces")] == ["acme", "other"]
    assert regions.cli("eu").json("key", "add", "acme")["key"].startswith("fp_eu_")


def test_one_that_was_placed_before_is_added_where_it_lives(regions: Regions) -> None:
    regions.cli().ok("region", "place", "acme", "us")
    assert "lives in us" in regions.cli("eu").error("workspace", "add", "acme")
    assert "added acme" in regions.cli("us").ok("workspace", "add", "acme")


def test_a_region_that_is_down_has_no_workspace_placed_in_it(regions: Regions) -> None:
    some = Regions({**regions.urls, "far": DOWN}, regions.home_url, regions.home)
    assert "Region far does not answer" in some.cli("far").error("workspace", "add", "acme")
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
    assert regions.cli(region).json("audit") == []


def test_members_are_invited_in_their_region_and_links_name_it(regions: Regions) -> None:
    regions.cli("us").ok("workspace", "add", "acme")
    offered = regions.cli("us").json("member", "add", "acme", "bob@example.com", "--send")
    assert "/invitation?token=us." in offered["link"]
    assert "/reset?token=us." in regions.cli("us").json("member", "reset", "acme", "bob@example.com")["link"]
    with psycopg.connect(regions.urls["us"]) as conn:
        ((text,),) = conn.execute("SELECT c.text_body FROM fairpost.contents c").fetchall()
    assert "/invitation?token=us." in text
    assert "There is no workspace acme" in regions.cli("eu").error("member", "add", "acme", "bob@example.com")
    assert "Say which region is meant" in regions.cli().error("member", "list", "acme")
    found = [name for name, url in regions.all_urls.items() if tables_with(url, "bob@example.com")]
    assert found == ["us"]


def test_audit_is_the_regions_of_a_workspace_and_homes_of_the_installation(regions: Regions) -> None:
    regions.cli("us").ok("workspace", "add", "acme")
    assert [each["action"] for each in regions.cli("us").json("audit", "acme")] == ["workspace.add"]
    assert "Say which region is meant" in regions.cli().error("audit", "acme")
    with psycopg.connect(regions.home_url) as conn:
        conn.execute("INSERT INTO fairpost.audit (at, who, action, subject) VALUES (now(), 'x', 'admin.enable', 'y')")
    assert [each["action"] for each in regions.cli("us").json("audit")] == ["admin.enable"]
    assert [each["action"] for each in regions.cli().json("audit")] == ["admin.enable"]


@pytest.mark.slow
def test_up_serves_all_regions_and_sends_the_mail_of_the_chosen_one(regions: Regions) -> None:
    with new_home() as home:  # its own embedded database, which is started and ended with it
        environment = {**regions.environment("eu"), "FAIRPOST_HOME": str(home), "FAIRPOST_DATABASE_URL": ""}
        assert "Say which region is meant" in Cli({**environment, "FAIRPOST_REGION": ""}).run("up", code=1)
        process = Cli(environment).start("up")
        assert process.stdout is not None
        try:
            said = ""
            while "for good: " not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            found = re.search(r"HTTP API: (http://\S+)/docs", said)
            assert found, said
            with urllib.request.urlopen(f"{found[1]}/readyz", timeout=150) as answer:
                assert json.load(answer)["data"]["regions"] == {"eu": True, "us": True, "ap": True}
            with psycopg.connect(regions.urls["eu"]) as conn:
                assert conn.execute("SELECT count(*) FROM fairpost.engines").fetchone() == (1,)
        finally:
            process.terminate()
            out, err = process.communicate(timeout=150)
        assert process.returncode == 0, out + err
        assert not EmbeddedServer(home).status().running


def test_a_region_may_be_the_home_database_itself(regions: Regions) -> None:
    same = Regions({"eu": regions.home_url, "us": regions.urls["us"]}, regions.home_url, regions.home)
    send(same.cli("eu"))
    assert same.cli("eu").json("status")["queue"]["waiting"] == 1
    assert queued(regions.home_url) == 1


def test_the_key_file_of_several_regions_is_not_replaced_for_one_of_them(regions: Regions) -> None:
    regions.cli("eu").ok(
        "account", "add", "sales", "--from", "s@post.test", "--smtp", "smtp+starttls://ann:pw@smtp.test"
    )
    assert "run this in every region" in regions.cli("eu").error("secrets", "rotate")


@pytest.mark.parametrize("region", ["eu", None])
def test_the_address_of_a_database_follows_the_region(regions: Regions, region: str | None) -> None:
    wanted = regions.urls[region] if region else regions.home_url
    assert regions.cli(region).ok("db", "url").strip() == wanted
    assert written(regions.urls).count("=postgresql") == 3
