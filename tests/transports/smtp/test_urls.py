"""A server as one line: every form, every default, the most difficult passwords, and errors that reveal nothing."""

from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.transport import Security
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.smtp.urls import SCHEMES, SmtpUrl, WrongUrl, parse_smtp_url, url_of

SECRET = "hunter2"


def parsed(url: str) -> SmtpSettings:
    return parse_smtp_url(url).settings


@pytest.mark.parametrize(
    ("url", "security", "port"),
    [
        ("smtp://h.test", Security.OFFERED, 25),
        ("smtp://ann@h.test", Security.OFFERED, 587),
        ("smtp+starttls://h.test", Security.STARTTLS, 587),
        ("smtps://h.test", Security.IMPLICIT, 465),
        ("smtp://h.test?tls=none", Security.NONE, 25),
        ("smtp://ann@h.test?tls=none", Security.NONE, 587),
        ("SMTPS://H.test/", Security.IMPLICIT, 465),
        ("smtp://h.test:2525/?tls=none", Security.NONE, 2525),
    ],
)
def test_the_scheme_says_how_it_is_secured_and_the_usual_port(url: str, security: Security, port: int) -> None:
    settings = parsed(url)
    assert (settings.host, settings.security, settings.port) == ("h.test", security, port)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("smtp://127.0.0.1", "127.0.0.1"),
        ("smtp://[::1]:25", "::1"),
        ("smtp://[2001:DB8::0:1]", "2001:db8::1"),
        ("smtp://[fe80::1%25eth0]:25", "fe80::1%eth0"),
        ("smtp://post.bücher.example", "post.xn--bcher-kva.example"),
        ("smtp://my_relay", "my_relay"),
    ],
)
def test_hosts_are_names_or_addresses(url: str, host: str) -> None:
    assert parsed(url).host == host
    assert parsed(url_of(parsed(url))) == parsed(url)


@pytest.mark.parametrize(
    ("login", "user", "password"),
    [
        ("ann:secret", "ann", "secret"),
        ("ann%40example.com:a%2Fb%3Fc%23d%25", "ann@example.com", "a/b?c#d%"),
        ("ann@example.com:p@ss:word", "ann@example.com", "p@ss:word"),  # the last @ is the one before the host
        ("ann", "ann", None),
        ("ann:", "ann", None),
        (":", None, None),
        ("ann:a+b", "ann", "a+b"),
        ("%C3%A4nn:gr%C3%BC%C3%9Fe", "änn", "grüße"),
    ],
)
def test_user_and_password_are_decoded(login: str, user: str | None, password: str | None) -> None:
    url = parse_smtp_url(f"smtps://{login}@h.test")
    assert (url.settings.user, url.password) == (user, password)


def test_options_are_read() -> None:
    settings = parsed("smtps://h.test?ca_file=/etc/ssl/my%20ca.pem&hello=mail.example.com&bounces=B%C3%BCcher.test")
    assert (settings.ca_file, settings.hello_name) == ("/etc/ssl/my ca.pem", "mail.example.com")
    assert settings.bounce_domain == "xn--bcher-kva.test"
    assert parsed(url_of(settings)) == settings


WRONG = {
    "": "its scheme",
    "h.test": "its scheme",
    "http://h.test": "its scheme",
    "smtp:h.test": "its scheme",
    f"ann:{SECRET}@h.test": "its scheme",
    f"{SECRET}://h.test": "its scheme",
    "smtp://": "its host",
    "smtp://:25": "its host",
    "smtp://a b": "its host",
    "smtp://::1": "its host",
    "smtp://[::1": "its host",
    "smtp://[::1]25": "its host",
    f"smtp://[{SECRET}]": "its host",
    "smtp://a..b": "its host",
    "smtp://-a": "its host",
    "smtp://" + "a" * 254: "its host",
    f"smtp://ann:{SECRET}": "its port",
    "smtp://h.test:0": "its port",
    "smtp://h.test:65536": "its port",
    "smtp://h.test:٢٥": "its port",
    f"smtp://ann:{SECRET}/x@h.test": "its user or password",
    f"smtp://ann:?{SECRET}@h.test": "its user or password",
    f"smtp://ann:#{SECRET}@h.test": "its user or password",
    f"smtp://ann:{SECRET}%@h.test": "its password",
    f"smtp://ann:%ff{SECRET}@h.test": "its password",
    f"smtp://ann:%00{SECRET}@h.test": "its password",
    f"smtp://:{SECRET}@h.test": "its user",
    f"smtp://a%0a:{SECRET}@h.test": "its user",
    f"smtp://h.test/{SECRET}": "it",
    f"smtp://h.test#{SECRET}": "it",
    f"smtp://h.test?{SECRET}": "its options",
    f"smtp://h.test?password={SECRET}": "its options",
    "smtp://h.test?hello=a&hello=b": "its options",
    "smtp://h.test?hello=a%20b": "its option hello",
    "smtp://h.test?bounces=a%20b.test": "its option bounces",
    "smtp://h.test?bounces=nodot": "its option bounces",
    f"smtp://h.test?tls={SECRET}": "its option tls",
    "smtps://h.test?tls=none": "its option tls",
    "smtp://h.test?ca_file=ca.pem": "its option ca_file",
    f"smtp://ann:{SECRET}\n@h.test": "it",
    f"smtp://ann:{SECRET}\udcff@h.test": "it",
    "smtp://" + "a" * 5000: "it",
}


@pytest.mark.parametrize("url", WRONG)
def test_an_error_names_the_part_and_never_what_was_written(url: str) -> None:
    with pytest.raises(WrongUrl) as error:
        parse_smtp_url(url)
    assert error.value.part == WRONG[url]
    assert SECRET not in f"{error.value} {error.value!r} {error.value.__cause__!r}"


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50)
USERS = TEXT.filter(str.isprintable)
HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z]{2,5}){0,3}", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
SETTINGS = st.builds(
    SmtpSettings,
    host=HOSTS,
    port=st.integers(1, 65_535),
    security=st.sampled_from(Security),
    user=st.none() | USERS,
    ca_file=st.none() | USERS.map(lambda path: f"/{path}"),
    hello_name=st.none() | st.from_regex(r"[a-z0-9.-]{1,50}|\[IPv6:[0-9a-f:]{2,30}\]", fullmatch=True),
)


@given(SETTINGS)
def test_any_server_is_read_as_it_was_written(settings: SmtpSettings) -> None:
    assert parse_smtp_url(url_of(settings)) == SmtpUrl(settings=settings)


@given(SETTINGS, USERS, TEXT)
def test_any_password_is_read_as_it_was_written_and_never_shown(
    settings: SmtpSettings, user: str, password: str
) -> None:
    scheme, _, rest = url_of(settings).partition("://")
    place = rest.rpartition("@")[2]
    url = parse_smtp_url(f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{place}")
    assert (url.settings.user, url.password) == (user, password)
    assert "password" not in repr(url)
    assert repr(url) == repr(SmtpUrl(settings=url.settings))
    assert url_of(url.settings) == url_of(parse_smtp_url(url_of(url.settings)).settings)


@given(st.sampled_from([*SCHEMES, "", "http"]), st.text(max_size=60))
def test_any_text_is_a_server_or_a_wrong_url(scheme: str, rest: str) -> None:
    for text in (rest, f"{scheme}://{rest}", f"{scheme}://ann:{rest}@h.test", f"{scheme}://h.test?{rest}"):
        with suppress(WrongUrl):
            settings = parsed(text)
            assert parsed(url_of(settings)) == settings
