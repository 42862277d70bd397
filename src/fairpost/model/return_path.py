"""The address that receives reports about one e-mail: bounces+TOKEN@DOMAIN. `public_ids` defines the token."""

NAME = "bounces"


def return_path(token: str, *, domain: str) -> str:
    return f"{NAME}+{token}@{domain}"


def token_in(address: str) -> str | None:
    name, plus, token = address.strip("<> ").rpartition("@")[0].partition("+")
    return token if plus and name.lower() == NAME else None
