"""`nmt export`: write a translator as files of another engine."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmt.checkpoint_option import add_checkpoint
from nmt.console.terminal import print
from nmt.export import ctranslate2, onnx
from nmt.system import System

FORMATS = {"ctranslate2": ctranslate2.export, "onnx": onnx.export}


def add_export(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt export`."""
    parser.add_argument("run_directory", type=Path, metavar="RUN",
                        help="the run directory of a translator")
    add_checkpoint(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), required=True,
                        help="write files of ctranslate2 (for a Transformer) or of onnx (for a "
                             "recurrent translator)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR",
                        help="make this directory")


def run_export(options: argparse.Namespace) -> None:
    """`nmt export`.

    Write a translator and its vocabularies for another engine.
    """
    system = System.open(options.run_directory, options.checkpoint)
    FORMATS[options.format](system, options.output)
    files = sorted(path.name for path in options.output.iterdir())
    print(f"{options.output}: {', '.join(files)}")
