"""Claims about the runtime's files in the Cache API: a host without HTTP caching still sends them once."""

import pytest
from engine_site import build_engine_site
from test_engine import MINUTES_2, open_page, runtime_hits

MODULES = {"pyodide.js", "pyodide.asm.js"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build_engine_site(tmp_path_factory.mktemp("engine-kept"))


def fetched(served):
    """Name → times sent, of the files that scripts fetch (modules are the browser's own affair)."""
    return {
        path.rpartition("/")[2]: hits
        for path, hits in runtime_hits(served).items()
        if path.rpartition("/")[2] not in MODULES
    }


def test_a_second_visit_to_a_host_that_forbids_caching_fetches_nothing_again(
    chromium, chromium_options, serve, site, tmp_path
):
    served = serve(site, headers={"Cache-Control": "no-store"})
    with chromium.browser_type.launch_persistent_context(tmp_path, **chromium_options) as context:
        context.set_default_timeout(MINUTES_2)
        for _ in range(2):
            page = open_page(context, served.url)
            page.evaluate("engine.create().load()")
            assert fetched(served)
            assert set(fetched(served).values()) == {1}
        kept = page.evaluate("() => caches.keys()")
        assert len(kept) == 1

        # A damaged copy is fetched again, and the caches of former versions go.
        page.evaluate(
            """async (name) => {
                await caches.open("raona-prova-runtime-former");
                const cache = await caches.open(name);
                for (const request of await cache.keys()) {
                    if (request.url.endsWith(".zip")) await cache.put(request, new Response("damaged"));
                }
            }""",
            kept[0],
        )
        open_page(context, served.url).evaluate("engine.create().load()")
        hits = fetched(served)
        assert hits.pop("python_stdlib.zip") == 2
        assert set(hits.values()) == {1}
        assert page.evaluate("() => caches.keys()") == kept
