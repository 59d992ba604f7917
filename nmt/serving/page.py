"""The page of `nmt serve`: a form for a sentence, and the page of its search."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nmt.data.corpora import EMBEDDED, examples
from nmt.models.registry import name_of
from nmt.pages.page import ASSETS, SEARCH_MODULES, SEARCH_STYLES, Layout, page_of, policy_of
from nmt.serving.service import Service

SERVE = Layout(("serve", "search"), (*SEARCH_STYLES, "serve.css"), (*SEARCH_MODULES, "serve"),
               directories=(Path(__file__).parent / "assets", ASSETS), connects="'self'")


class Page(NamedTuple):
    """The response for `/`."""

    html: bytes
    policy: str  # Content-Security-Policy


def served_page(service: Service, members: int) -> Page:
    """The page of a service; members: the number of models in its ensemble."""
    data, model = service.system.recipe.data, service.system.recipe.model
    languages = [data.source_language, data.target_language]
    kind = f"{name_of(model)}, attention: {model.attention}"
    about = f"An ensemble of {members} models; the first: {kind}." if members > 1 else \
        f"The model: {kind}."
    to_try = examples(data)
    page = page_of({
        "title": f"Translate: {languages[0]} to {languages[1]}", "languages": languages,
        "about": " ".join([about, *([EMBEDDED] if to_try else [])]), "examples": to_try,
        "beam": service.options.beam, "most_beam": service.most_beam,
        "words": service.limits.words, "characters": service.limits.characters}, SERVE)
    return Page(page.encode(), policy_of(SERVE) + "; frame-ancestors 'none'")
