"""The README's example runs as printed and says what the README says."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def facts(table):
    """The loss, the verdict, and of each row what does not hang on rounding: name and verdict."""
    return [re.sub(r"\d\.\de-\d+$", "e", line.split("  ")[0].split(";")[0])
            + re.sub(r"  +", " ", line)[-3:] * ("  " in line) for line in table.split("\n")]


def test_the_example(capsys) -> None:
    code, output = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README.read_text("utf-8"),
                             re.DOTALL).groups()
    assert len([line for line in code.split("\n") if line.strip()]) == 11
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert facts(printed) == facts(output)
    assert printed.count(" ok\n") == 13 and "WRONG" not in printed
