"""`raona serve`: right MIME types on any machine, any prefix, and a clear word when the port is taken."""

import http.client
import socket
import urllib.error
import urllib.parse
import urllib.request

import pytest

from builder.errors import BuildError
from builder.serve import FIRST_PORT, make_server, running


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html><title>Inici</title>", encoding="utf-8")
    for name in (
        "raonament/index.html",
        "assets/main-1a2b.js",
        "pyodide/a.wasm",
        "pyodide/a.whl",
        "font.woff2",
        "x.mjs",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"0")
    return tmp_path


def get(url: str) -> tuple[int, http.client.HTTPMessage]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


@pytest.mark.parametrize(
    "name, expected",
    [
        ("", "text/html"),
        ("assets/main-1a2b.js", "text/javascript"),
        ("x.mjs", "text/javascript"),
        ("pyodide/a.wasm", "application/wasm"),
        ("pyodide/a.whl", "application/zip"),
        ("font.woff2", "font/woff2"),
    ],
)
def test_types_are_right_whatever_the_machine_believes(site, name, expected):
    with running(site) as url:
        status, headers = get(url + name)
    assert status == 200
    assert headers.get_content_type() == expected


def test_types_can_be_made_wrong_for_tests(site):
    with running(site, types={".wasm": "text/plain"}) as url:
        assert get(url + "pyodide/a.wasm")[1].get_content_type() == "text/plain"


def test_the_site_can_lie_under_a_prefix_and_nowhere_else(site):
    with running(site, prefix="/curs/ia") as url:
        assert url.endswith("/curs/ia/")
        assert get(url + "raonament/")[0] == 200
        host = url.removesuffix("curs/ia/")
        assert get(host)[0] == 404
        assert get(host + "raonament/")[0] == 404


@pytest.mark.parametrize("path, target", [("/curs/ia", "/curs/ia/"), ("/curs/ia/raonament", "/curs/ia/raonament/")])
def test_a_folder_without_its_slash_redirects_within_the_prefix(site, path, target):
    with running(site, prefix="/curs/ia/") as url:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=10)
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        connection.close()
    assert response.status == 301
    assert response.headers["Location"] == target


def test_only_files_named_after_their_contents_are_kept_without_asking(site):
    with running(site, prefix="/curs/") as url:
        assert "immutable" in get(url + "assets/main-1a2b.js")[1]["Cache-Control"]
        assert get(url + "raonament/")[1]["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("name", ["assets/main-old.js", "pyodide/00/none.wasm", "assets/../raonament/"])
def test_what_is_missing_or_not_named_after_its_contents_is_asked_for_again(site, name):
    with running(site) as url:
        assert get(url + name)[1]["Cache-Control"] == "no-cache"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("request_line", [b"GET / NONSENSE/9\r\n\r\n", b"NONSENSE\r\n\r\n", b"GET  \r\n\r\n"])
def test_a_malformed_request_is_answered_and_the_server_goes_on(site, capfd, request_line):
    with running(site) as url:
        where = urllib.parse.urlsplit(url)
        with socket.create_connection((where.hostname, where.port), timeout=10) as connection:
            connection.sendall(request_line)
            assert b"400" in connection.recv(1000)
        assert get(url)[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_nothing_outside_the_site_is_served(site):
    (site.parent / "secret.txt").write_text("x", encoding="utf-8")
    with running(site) as url:
        assert get(url + "..%2fsecret.txt")[0] == 404
        assert get(url + "pyodide/")[0] == 404  # no listing either


def test_a_taken_port_is_said_with_what_to_do(site):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BuildError, match=rf"Port {port} is taken.*PORT=") as caught:
            make_server(site, port=port)
    assert "\n" not in str(caught.value)


def test_without_a_port_the_first_free_one_is_taken(site):
    with make_server(site) as one, make_server(site) as other:
        assert FIRST_PORT <= one.server_address[1] < other.server_address[1]


@pytest.mark.parametrize("options", [{"port": 70000}, {"bind": "192.0.2.1", "port": 0}])
def test_an_impossible_address_is_said(site, options):
    with pytest.raises(BuildError):
        make_server(site, **options)


def test_a_site_that_was_not_built_is_said(tmp_path):
    with pytest.raises(BuildError, match="make build"):
        make_server(tmp_path)
