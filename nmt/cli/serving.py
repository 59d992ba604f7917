"""`nmt serve`: translate on a web page."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from nmt.cli.options import add_length_norm, add_models
from nmt.cli.sources import need_one_source
from nmt.console.arguments import natural, positive
from nmt.console.terminal import print
from nmt.search.interface import chosen
from nmt.serving.page import served_page
from nmt.serving.server import Server
from nmt.serving.service import Limits, Service
from nmt.system import System

HOST, PORT = "127.0.0.1", 8000
LIMITS = Limits()


def add_serve(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt serve`."""
    add_models(parser)
    parser.add_argument("--host", default=HOST,
                        help=f"listen here (default: {HOST}, this machine alone)")
    parser.add_argument("--port", type=partial(natural, most=65535), default=PORT, metavar="N",
                        help=f"listen on this port; 0 takes a free one (default: {PORT})")
    parser.add_argument("--beam", type=positive, metavar="N",
                        help="keep N hypotheses unless the page asks for more (default: the "
                             "recipe's)")
    parser.add_argument("--nbest", type=positive, default=LIMITS.nbest, metavar="N",
                        help=f"show N translations, at most the beam (default: {LIMITS.nbest})")
    add_length_norm(parser)
    parser.add_argument("--max-words", type=positive, default=LIMITS.words, metavar="N",
                        help=f"refuse sentences of more words (default: {LIMITS.words})")
    parser.add_argument("--max-characters", type=positive, default=LIMITS.characters, metavar="N",
                        help=f"refuse longer sentences (default: {LIMITS.characters})")
    parser.add_argument("--waiting", type=natural, default=LIMITS.waiting, metavar="N",
                        help="let N requests wait while one is answered, refuse others "
                             f"(default: {LIMITS.waiting})")


def run_serve(options: argparse.Namespace) -> None:
    """`nmt serve`: answer requests until Ctrl-C or SIGTERM."""
    with make_server(options) as server:
        if server.host not in (HOST, "localhost", "::1"):
            print("nmt: whoever reaches this machine can use the page: there is no password",
                  file=sys.stderr)
        print(f"{server.url} (Ctrl-C ends)", flush=True)
        server.serve_forever()


def make_server(options: argparse.Namespace) -> Server:
    """The listening server of a command's options."""
    system = System.open_all(options.model, options.average, options.checkpoint)
    need_one_source(system, "nmt serve")
    search = chosen(system.recipe.search, options.beam, None, options.length_factor,
                    options.length_normalisation)
    limits = Limits(options.max_words, options.max_characters, options.waiting, options.nbest)
    service = Service(system, search, limits)
    return Server(service, served_page(service, len(options.model)), options.host, options.port)
