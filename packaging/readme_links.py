"""Links of README.md where it is read outside of a checkout, such as on PyPI."""

import re


def with_absolute_links(text: str, home: str) -> str:
    """Return Markdown whose relative links lead to the pages of the site."""

    def absolute(match: re.Match[str]) -> str:
        path = match[1].removeprefix("resources/docs/")
        is_page = path.endswith(".md") or "." not in path
        if not is_page:
            return f"]({home}/{path})"
        # Documents of the checkout's root are pages in small letters.
        page = path if "/" in path else path.lower()
        return f"]({home}/{page.removesuffix('.md')}.html)"

    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", absolute, text)
