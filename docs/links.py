"""Where the links of the built site go: `python docs/links.py SITE` fails if one leads nowhere.

Links within the site, with their anchors. No network is used. `python docs/links.py SITE pictures`
skips links to files of a folder that was not built.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs.get("id"), attrs.get("name")}
        self.links |= {attrs.get("href"), attrs.get("src")} - {None, ""}


def broken(site, not_built=()):
    """(where, link) for each link that leads nowhere."""
    written = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path) for path in written}
    links = [(path, link) for path, page in pages.items() for link in page.links]
    for path, link in links:
        if urlsplit(link).scheme or link.startswith("//") or link.split("/")[0] in not_built:
            continue
        file, anchor = map(unquote, urldefrag(link.partition("?")[0] or path.name))
        target = (path.parent / file).resolve() if file else path
        anchors = pages[target].anchors if target in pages else {anchor}
        if not target.exists() or (anchor and anchor not in anchors):
            yield path.relative_to(site), link


if __name__ == "__main__":
    found = sorted(set(broken(Path(sys.argv[1]).resolve(), sys.argv[2:])))
    for where, link in found:
        print(f"{where}: {link} leads nowhere")
    sys.exit(bool(found))
