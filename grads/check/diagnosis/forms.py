"""What the search for a change tries in place of a value {} of a backward."""

# by kind of the value: floats, integers, flags, a range
ALONE = {
    "f": ("-{}", "{}.T", "np.swapaxes({}, -1, -2)", "{} + {}.T",
          "({} + {}.T) / 2", "1 / {}", "1 - {}", "1 + {}", "{} ** 2", "np.sqrt({})",
          "np.ones_like({})", "np.zeros_like({})", "{}[::-1]", "{}[..., ::-1]", "np.tril({})",
          "np.triu({})", "np.conj({})", "np.roll({}, 1, -1)", "np.roll({}, -1, -1)",
          "np.roll({}, 1, 0)", "np.roll({}, -1, 0)", "np.roll({}, 2, 0)", "np.roll({}, -2, 0)",
          "{} - {}.mean(-1, keepdims=True)", "{} - {}.mean(0)",
          "np.tril({}) - np.diag(np.diag({})) / 2", "np.exp({})", "np.log({})",
          "np.cumsum({}[::-1], 0)[::-1]", "{}[:, None]"),
    "i": ("{} - 1", "{} + 1", "-{}", "np.argsort({}, -1)", "{}[::-1]"),
    "r": ("{}[::-1]",),
    "b": ("~{}", "np.ones_like({})"),
}
# with another value #
PRODUCTS = ("#.T @ {}", "# @ {}", "{} @ #.T", "{} @ #")  # whose shapes leave few to try
SIMPLE = ("{} * #", "{} / #", "#", "{} + #", "{} - #")
SLOPES = ("{} * #", "{} * (1 - # ** 2)", "{} * # * (1 - #)", "{} * (1 - #)", "{} * (# > 0)")
WITH = ("{} * #[..., None]", "{} * (# > 0)", "{} * (1 - # ** 2)", "{} * # * (1 - #)",
        "{} * (1 - #)", "{} * (1 + #)", "1 - # ** 2", "# * (1 - #)", "1.0 * (# > 0)",
        "{} * np.exp(#)", "{} / (1 + np.exp(-#))", "{} * np.cos(#)", "{} * np.log(#)",
        "{} - # * {}.sum(axis=-1, keepdims=True)",
        "{} - np.exp(#) * {}.sum(axis=-1, keepdims=True)",
        "# * ({} - (# * {}).sum(axis=-1, keepdims=True))",
        "{} - {}.mean(axis=0) - # * ({} * #).mean(axis=0)")
FOR_NUMBERS = ("#[..., None]", "#.sum(-1)", "-#.sum(-1)")
INDEXED = ("{} - np.eye({}.shape[-1])[#]", "{}[#]", "{}[np.argsort(#)]",
           "np.take_along_axis({}, #, -1)", "np.take_along_axis({}, np.argsort(#, -1), -1)")
