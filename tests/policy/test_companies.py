"""Which addresses belong to a company, and which to a person."""

from fairpost.policy.companies import company_of


def test_domains_of_public_providers_are_no_companies() -> None:
    wanted = {
        "ann@acme.test": "acme.test",
        "ann@MAIL.Acme.test.": "mail.acme.test",
        "ann@gmail.com": None,
        "ann@yahoo.co.jp": None,
        "ann@hotmail.fr": None,
        "ann@web.de": None,
        "ann@localhost": None,
        "ann": None,
    }
    assert {address: company_of(address) for address in wanted} == wanted
