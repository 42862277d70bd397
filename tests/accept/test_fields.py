"""Each field of an e-mail is described once, so Python and HTTP have the same fields with the same limits."""

from dataclasses import fields
from typing import Any

import pytest

from fairpost import Email
from fairpost.model.email_fields import EMAIL_FIELDS, EmailField
from tests.api.served import document


def http() -> dict[str, Any]:
    properties: dict[str, Any] = document()["components"]["schemas"]["EmailIn"]["properties"]
    return properties


def found(schema: dict[str, Any], key: str) -> Any:
    """Returns the property from the schema, or from the variant that has it."""
    return next((each[key] for each in (schema, *schema.get("anyOf", ())) if key in each), None)


def test_python_has_every_field() -> None:
    assert {each.name for each in fields(Email)} == {each.python or each.name for each in EMAIL_FIELDS}


def test_http_has_every_field_that_is_given_there() -> None:
    assert set(http()) == {each.name for each in EMAIL_FIELDS if each.is_over_http}


@pytest.mark.parametrize("field", [each for each in EMAIL_FIELDS if each.is_over_http], ids=lambda each: each.name)
def test_http_keeps_the_described_bounds(field: EmailField) -> None:
    schema = http()[field.name]
    if field.chars_max is not None:
        assert (found(schema, "minLength") or 0, found(schema, "maxLength")) == (field.chars_min, field.chars_max)
    assert (found(schema, "minimum"), found(schema, "maximum")) == (field.ge, field.le)
    assert tuple(found(schema, "enum") or ()) == field.choices
    if field.count_max is not None and field.name not in ("headers", "tags"):
        assert found(schema, "maxItems") == field.count_max
    assert schema["description"]
