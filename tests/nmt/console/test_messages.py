"""Numbers of things in messages."""

from nmt.console.messages import several


def test_singular_and_plural():
    assert [several(n, "tensor") for n in (0, 1, 2)] == ["0 tensors", "1 tensor", "2 tensors"]
    assert several(1, "miss", "misses") == "1 miss" and several(3, "miss", "misses") == "3 misses"
