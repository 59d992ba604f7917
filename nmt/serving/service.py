"""The service behind `nmt serve`: it translates one request at a time and keeps nothing of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from backend.errors import UserError
from nmt.data.corpora import tokenisers
from nmt.pages.search import searches_of
from nmt.search.interface import SearchOptions
from nmt.search.recorder import path_of
from nmt.system import System

MOST_BEAM = 20  # largest beam of a request, unless the server has a larger default
KEYS = ("text", "beam")


class Refusal(Exception):
    """The error for a request that is not translated: an HTTP status and one line."""

    def __init__(self, status: HTTPStatus, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


@dataclass(frozen=True)
class Limits:
    """Limits on the size and the number of requests."""

    words: int = 100  # of a sentence
    characters: int = 1000
    waiting: int = 4  # requests that wait while another is answered
    nbest: int = 5  # translations of an n-best list, which is never longer than the beam


class Service:
    """A translator that answers the requests of several threads one by one.

    system: the translator; options: options of the search, unless a request overrides them; limits:
    limits of a request; its number of words is also limited by the recipe's
    `data.max_translate_length`.
    """

    def __init__(self, system: System, options: SearchOptions, limits: Limits) -> None:
        longest = min(limits.words, system.recipe.data.max_translate_length)
        self.system, self.options = system, options
        self.limits = replace(limits, words=longest)
        self.most_beam = max(MOST_BEAM, options.beam)
        self._places = threading.BoundedSemaphore(1 + limits.waiting)
        self._translating = threading.Lock()

    def answer(self, request: object) -> dict[str, Any]:
        """The answer to {"text": sentence, "beam": K}; "beam" is optional.

        Its keys: "translation", plain text; "nbest", the translations of `described`, best first;
        "source", the words read; "unknown", those outside the vocabulary; "notes", sentences about
        the model and the sentence; "search", every step of the search, from
        `nmt.pages.search.searches_of`. Raises Refusal: 400 for an invalid request, 503 for too many
        requests.
        """
        text, options = self._asked(request)
        with self._turn():
            try:
                return self._translated(text, options)
            except UserError as error:
                raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
            except MemoryError:
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE,
                              "out of memory: expected a smaller beam or a shorter sentence"
                              ) from None

    def _asked(self, request: object) -> tuple[str, SearchOptions]:
        """The sentence and the search options of a request."""
        if not isinstance(request, Mapping) or not isinstance(request.get("text"), str):
            raise _bad('expected an object such as {"text": "a sentence"}')
        if unknown_keys := [key for key in request if key not in KEYS]:
            raise _bad(f"{unknown_keys[0][:40]}: expected no key but {' and '.join(KEYS)}")
        text, beam = request["text"], request.get("beam", self.options.beam)
        if len(text) > self.limits.characters:
            raise _bad(f"text: expected at most {self.limits.characters} characters, got "
                       f"{len(text)}")
        if text.encode("utf-8", "replace").decode() != text:
            raise _bad("text: expected Unicode text, got half of a surrogate pair")
        if "\n" in text.strip("\n"):
            raise _bad("text: expected one sentence, got several lines")
        if type(beam) is not int or not 1 <= beam <= self.most_beam:
            raise _bad(f"beam: expected an integer from 1 to {self.most_beam}")
        return text.strip("\r\n"), replace(self.options, beam=beam,
                                           nbest=min(self.limits.nbest, beam))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Context: wait until no other request is being answered.

        Raises Refusal if too many requests wait already.
        """
        if not self._places.acquire(blocking=False):
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once: try again "
                          "in a second", **{"Retry-After": "1"})
        try:
            with self._translating:
                yield
        finally:
            self._places.release()

    def _translated(self, text: str, options: SearchOptions) -> dict[str, Any]:
        """The answer to a text: its tokens, their search and the translations that it found."""
        words = tokenisers(self.system.recipe.data)[0].tokenise(text)
        if not words:
            raise UserError("text: expected at least one word, got none")
        if len(words) > self.limits.words:
            raise UserError(f"text: expected at most {self.limits.words} words, got {len(words)}")
        search = searches_of(self.system, words, options)
        nbest = [described(search["searches"]["beam"], hypothesis)
                 for hypothesis in search["searches"]["beam"]["found"]]
        return {"translation": nbest[0]["translation"], "nbest": nbest,
                "source": search["source"], "unknown": self.system.unknown_words(words),
                "notes": search["notes"], "search": search}


def described(search: Mapping[str, Any], hypothesis: Mapping[str, Any]) -> dict[str, Any]:
    """A translation of the n-best list as JSON values.

    Its keys: "translation", plain text; "words", each {"word", "log_p"} with its log-probability in
    nats; the last word is `</s>` if the translation is "finished" (a model that counts down has
    none); "log_p", their sum, with a countdown plus that of the length; "score", by which the list
    is sorted; "attention", for each word a weight for each word of "source", or null without
    attention.
    """
    path = path_of(search["steps"], hypothesis["at"])
    spelled = dict(enumerate(hypothesis["spelled"]))
    weights = [search["steps"][step]["weights"] for step in range(len(path))]
    return {
        "translation": hypothesis["text"],
        "words": [{"word": spelled.get(place, node["word"]), "log_p": node["word_log_p"]}
                  for place, node in enumerate(path)],
        **{key: hypothesis[key] for key in ("log_p", "score", "finished")},
        "attention": None if weights[0] is None else
        [step_weights[node["parent"]] for step_weights, node in zip(weights, path, strict=True)],
    }


def _bad(message: str) -> Refusal:
    """The refusal of an invalid request."""
    return Refusal(HTTPStatus.BAD_REQUEST, message)
