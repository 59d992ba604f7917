"""What the search for a change tries in place of a value {} of a backward."""

# by kind of the value: floats, integers, flags
LIKELY = {
    "f": ("-{}", "{}.T", "{} / 2", "2 * {}", "1 - {}", "1 + {}", "{} ** 2"),
    "i": ("{} - 1", "{} + 1", "-{}"),
    "b": ("~{}", "not {}"),
}
ALONE = {
    "f": ("np.swapaxes({}, -1, -2)", "{} + {}.T", "({} + {}.T) / 2",
          "1 / {}", "np.sqrt({})", "np.exp({})", "np.log({})",
          "np.conj({})", "{}[:, None]", "np.linalg.inv({})",
          "{}[::-1]", "{}[..., ::-1]", "np.roll({}, 1, -1)", "np.roll({}, -1, -1)",
          "np.roll({}, 1, 0)", "np.roll({}, -1, 0)", "np.roll({}, 2, 0)", "np.roll({}, -2, 0)",
          "{} - {}.mean(-1, keepdims=True)", "{} - {}.mean(0)", "np.cumsum({}[::-1], 0)[::-1]",
          "np.tril({}) - np.diag(np.diag({})) / 2"),
    "i": ("np.argsort({}, -1)",),
}
# with another value #
PRODUCTS = ("#.T @ {}", "# @ {}", "{} @ #.T", "{} @ #")  # whose shapes leave few to try
TERMS = ("{} + #", "{} - #")
SIMPLE = ("{} * #", "{} / #", "#", *TERMS)
FORGOTTEN = ("{} * #", "{} / #", "{} * #[..., None]", "{} / #[..., None]")
SLOPES = ("{} * #", "{} * (1 - # ** 2)", "{} * # * (1 - #)", "{} * (1 - #)", "{} * (# > 0)")
WITH = (*SLOPES[1:], "{} * #[..., None]", "# * (1 - #)", "{} * np.cos(#)", "{} * np.log(#)",
        "{} * np.sign(#)",
        "{} - # * {}.sum(axis=-1, keepdims=True)",
        "# * ({} - (# * {}).sum(axis=-1, keepdims=True))",
        "{} - {}.mean(axis=0) - # * ({} * #).mean(axis=0)")
FOR_NUMBERS = ("#[..., None]", "#.sum(-1)")
ONE_HOT = ("{} - np.eye({}.shape[-1])[#]",)
