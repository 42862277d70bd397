"""Servers that an account can have, as described for a form: every entry is valid in a request."""

from typing import Any

import httpx2 as httpx

from fairpost.transports.oauth.settings import OauthKind
from tests.api.served import document


async def choices(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await client.get("/v1/transports")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def field_of(path: str) -> dict[str, Any]:
    """Returns the schema of the request that adds an account, from the document."""
    schemas = document()["components"]["schemas"]
    found: dict[str, Any] = schemas["AccountIn"]
    for name in path.split("."):
        found = found["properties"][name]
        found = {**found, **found.get("anyOf", [{}])[0]}  # the actual type of a nullable value
        found = schemas[found["$ref"].rpartition("/")[2]] if "$ref" in found else found
    return found


async def test_the_generic_choice_comes_last(client: httpx.AsyncClient) -> None:
    assert [each["name"] for each in await choices(client)] == ["gmail-api", "google", "microsoft", "smtp"]


async def test_presets_name_the_choices_that_offer_them(client: httpx.AsyncClient) -> None:
    """The usual preset comes first."""
    assert {each["name"]: each["presets"] for each in await choices(client)} == {
        "gmail-api": ["workspace", "gmail-api"],
        "google": ["gmail", "workspace"],
        "microsoft": ["microsoft365", "outlook", "hotmail"],
        "smtp": ["custom", "yahoo", "relay"],
    }


async def test_every_entry_is_a_field_of_the_request_with_the_same_bounds(client: httpx.AsyncClient) -> None:
    wrong = []
    for choice in await choices(client):
        for sign_in in choice["sign_ins"]:
            for entry in sign_in["entries"]:
                field = field_of(entry["name"])
                bounds = {"min": field.get("minimum"), "max": field.get("maximum"), "maxlength": field.get("maxLength")}
                has = {name: entry[name] for name in bounds}
                is_secret = field.get("format") == "password"
                if entry["is_secret"] != is_secret or (not is_secret and not entry["pattern"] and has != bounds):
                    wrong.append((entry["name"], has, bounds))
            for path in sign_in["fixed"]:
                field_of(path)
    assert wrong == []


async def test_every_way_to_get_tokens_is_offered_somewhere(client: httpx.AsyncClient) -> None:
    ways = {sign_in["name"] for choice in await choices(client) for sign_in in choice["sign_ins"]}
    assert ways == {*OauthKind, "password", "none"}


async def test_values_to_choose_from_are_those_of_the_request(client: httpx.AsyncClient) -> None:
    entries = [each for choice in await choices(client) for way in choice["sign_ins"] for each in way["entries"]]
    chosen = {each["name"]: {value for value, _ in each["options"]} for each in entries if each["options"]}
    fields = {name: field_of(name) for name in chosen}
    values = {
        name: {"true", "false"} if field["type"] == "boolean" else set(field["enum"]) for name, field in fields.items()
    }
    assert values == chosen
