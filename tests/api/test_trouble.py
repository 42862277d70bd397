"""A database in trouble causes 503 with Retry-After and one code, whatever the trouble, and never a traceback in the
log."""

import httpx2 as httpx

from tests.api.conftest import Api

FAILING = """
DO $do$ BEGIN
    CREATE FUNCTION fairpost.fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'it is in trouble' USING ERRCODE = NEW.reason; END $$;
    CREATE TRIGGER fail BEFORE INSERT ON fairpost.suppressions FOR EACH ROW EXECUTE FUNCTION fairpost.fail();
END $do$
"""
PASSING = ("53100", "53200", "25006", "57014", "58030", "XX001", "40P01")
FOR_AN_OPERATOR = ("42P01", "42501")
AWAY = ("53300", "57P01")  # after these, the region is not queried for a second


async def test_a_database_in_trouble_is_unavailable_and_says_when_to_try_again(
    api: Api, client: httpx.AsyncClient
) -> None:
    await api.store.value(FAILING)
    for code in (*PASSING, *FOR_AN_OPERATOR, *AWAY):
        answer = await client.put("/v1/suppressions/ann@example.com", json={"reason": code})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), code
        assert int(answer.headers["Retry-After"]) > 0, code
    assert len(api.log) == len(FOR_AN_OPERATOR), api.log
    assert {each.code for each in api.log} == {"request.failed"}
    assert all("\n" not in str(each.params["error"]) for each in api.log)
    api.log.clear()


async def test_a_value_that_the_database_refuses_is_refused_without_the_drivers_words(
    api: Api, client: httpx.AsyncClient
) -> None:
    await api.store.value(FAILING)
    for code in ("22021", "22P02", "23514"):
        answer = await client.put("/v1/suppressions/ann@example.com", json={"reason": code})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), code
        assert "trouble" not in answer.text
