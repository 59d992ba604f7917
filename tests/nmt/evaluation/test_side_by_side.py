"""Translations side by side, before and after."""

from nmt.evaluation.side_by_side import side_by_side


def test_a_later_stage_stands_where_it_changed_something():
    systems = {"word": {"": ["a <unk>", "b"], "replaced": ["a c", "b"]}, "letters": {"": ["d", ""]}}
    assert list(side_by_side(["x", "y"], ["u", "v"], systems)) == [
        "1", "source      x", "reference   u", "word        a <unk>", "  replaced  a c",
        "letters     d", "",
        "2", "source      y", "reference   v", "word        b", "letters", ""]
