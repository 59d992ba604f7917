"""eflomal as a program: its input, its output, and the error if it is missing."""

import shutil
import sys

import pytest

from backend.errors import UserError
from nmt.data.aligner import eflomal

# Notes its input, and links the first words of each pair forward, the last ones backward.
PROGRAM = """#!{python}
import sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
lines = [open(given[option], encoding="utf-8").read() for option in ("-s", "-t")]
open({notes!r}, "w", encoding="utf-8").write("|".join(lines))
pairs = list(zip(*(text.splitlines() for text in lines)))
open(given["-f"], "w").write("0-0\\n" * len(pairs))
open(given["-r"], "w").write("".join(f"{{len(x.split()) - 1}}-{{len(y.split()) - 1}}\\n"
                                     for x, y in pairs))
sys.exit({status} and print("no luck", file=sys.stderr) or {status})
"""


def program(tmp_path, monkeypatch, status=0):
    path = tmp_path / eflomal.PROGRAM
    notes = tmp_path / "notes"
    path.write_text(PROGRAM.format(python=sys.executable, notes=str(notes), status=status))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return notes


def test_pairs_with_an_empty_side_keep_their_place(tmp_path, monkeypatch) -> None:
    notes = program(tmp_path, monkeypatch)
    sources = [["a", "b\u00a0c"], [], ["d"], ["e"]]
    targets = [["x"], ["y"], [], ["z", "\u00a0"]]
    assert eflomal.align_by_eflomal(sources, targets) == (
        [[(0, 0)], [], [], [(0, 0)]], [[(1, 0)], [], [], [(0, 1)]])
    assert notes.read_text("utf-8") == "a b_c\ne\n|x\nz _\n"


def test_failures_are_one_line(tmp_path, monkeypatch) -> None:
    program(tmp_path, monkeypatch, status=3)
    with pytest.raises(UserError, match="eflomal-align: failed with status 3: no luck"):
        eflomal.align_by_eflomal([["a"]], [["x"]])
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    with pytest.raises(UserError, match="expected the program eflomal-align, found none"):
        eflomal.align_by_eflomal([["a"]], [["x"]])


@pytest.mark.skipif(shutil.which(eflomal.PROGRAM) is None, reason="no eflomal-align")
def test_the_program_itself() -> None:
    sources = [["a", "b"], ["b", "c"], ["c", "a"], []] * 25
    targets = [["y", "x"], ["z", "y"], ["x", "z"], ["x"]] * 25
    forward, backward = eflomal.align_by_eflomal(sources, targets)
    assert forward[:4] == [[(1, 0), (0, 1)]] * 3 + [[]]
    assert [sorted(links) for links in backward[:4]] == [[(0, 1), (1, 0)]] * 3 + [[]]
