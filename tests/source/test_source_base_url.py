import pytest

from connectors.source.base_url import check_base_url


@pytest.mark.parametrize(
    ("given", "used"),
    [
        *(
            (spelling, "https://api.example")
            for spelling in (
                *("https://api.example", "HTTPS://API.Example/", "https://api.example:443"),
                *("https://api.example./api/v1", "https://Api.example:443/api/v1/"),
            )
        ),
        ("HTTPS://API.example:8443/a/B//", "https://api.example:8443/a/B"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("https://api.example/prefix/api/v1", "https://api.example/prefix"),
        ("https://api.example/api/v10", "https://api.example/api/v10"),
        ("https://api.example/a/../b", "https://api.example/b"),
    ],
)
def test_an_address_has_one_spelling(given: str, used: str) -> None:
    assert check_base_url(given) == used == check_base_url(used)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "must begin with https"),
        ("api.example", "must begin with https"),
        ("localhost:8801/api", "for this machine with http://"),
        ("https://api.example/api/v1/accounts", "continues after /api/v1; remove /accounts"),
        ("https://api.example/x/api/v1/accounts/7/media/", "remove /accounts/7/media"),
        ("http://api.example", "for this machine only; use https"),
        ("https://", "cannot be parsed"),
        ("https:///api.example", "invalid host"),
        ("https://me:hunter2@api.example", "user name"),
        ("https://api.example/?a=hunter2", "query"),
        ("https://api.example/#", "query"),
        ("https://api.example:99999", "cannot be parsed"),
        ("https://xn--a.example", "cannot be parsed"),
        (f"https://{'a' * 64}.example", "invalid host"),
        ("https://api .example", "characters"),
        ("https://api.example\\@evil.example", "characters"),
    ],
)
def test_addresses_that_must_not_get_the_key(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        check_base_url(given)
    assert str(caught.value).isprintable()
    assert "hunter2" not in str(caught.value)
