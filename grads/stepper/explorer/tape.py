"""Records what a function does to its arrays, so that the page can do it again with other numbers.

    tape = Tape()
    W, x = tape.leaf(W), tape.leaf(x)
    loss = f(W, x)            # f is plain NumPy
    tape.lines                # every operation, in order

A line is a list: the operation, the index of the result's shape in `shapes`, and the operands. An
operand that is an array is given by the index of the line that made it. The operations, without
the shape, are

    ["leaf"]                                       an input; its numbers may be changed
    ["fixed", table]                               an array that depends on no input
    [name, a]  [name, a, b]  ["where", a, b, c]    a ufunc, elementwise; axes of length 1 broadcast
    ["matmul", a, b]
    ["sum" | "max", a, axis]                       over all entries if axis is None
    ["view", a, offset, strides, [[k, stride]...]]  entries at equal distances; line k has an index
    ["take", a, table]                             the entries at these flat indices
    ["join", a, ...]                               all entries one after another

`tables` holds lists of numbers, each list once, with infinities as JavaScript writes them. A
function that takes another path with other numbers cannot be recorded: it raises `Untaped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Line = list[Any]

UNARY = {"exp", "log", "tanh", "sqrt", "square", "negative", "absolute", "positive"}
BINARY = {"add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "less", "greater",
          "less_equal", "greater_equal", "equal", "not_equal"}
REDUCED = {"add": "sum", "maximum": "max"}
MOVED: set[Any] = {  # functions of one array whose result holds the same numbers elsewhere
    np.transpose, np.reshape, np.ravel, np.squeeze, np.expand_dims, np.broadcast_to,
    np.split, np.hsplit, np.vsplit, np.flip, np.repeat, np.swapaxes, np.moveaxis, np.atleast_2d}
JOINED: set[Any] = {np.concatenate, np.vstack, np.hstack, np.stack, np.column_stack}
PLAIN: set[Any] = {np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like}


class Untaped(Exception):
    """Raised for an operation that a tape cannot hold."""


class Tape:
    """Records the operations on arrays during a run."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.shapes: list[tuple[int, ...]] = []
        self.tables: list[list[Any]] = []
        self.shape_numbers: dict[tuple[int, ...], int] = {}
        self.known: dict[str, int] = {}  # tables, and arrays that depend on no input

    def leaf(self, value: Any) -> Taped:
        """An array whose numbers may be changed later."""
        return self.add(["leaf"], np.asarray(value))

    def add(self, line: Line, value: Any) -> Taped:
        """Add an operation with the result `value`."""
        value = np.asarray(value)
        line.insert(1, self.numbered(value.shape))
        self.lines.append(line)
        return taped(self, len(self.lines) - 1, value)

    def numbered(self, shape: tuple[int, ...]) -> int:
        """The index of a shape in `shapes`."""
        if shape not in self.shape_numbers:
            self.shape_numbers[shape] = len(self.shapes)
            self.shapes.append(shape)
        return self.shape_numbers[shape]

    def table(self, numbers: np.ndarray) -> int:
        """The index of a list of numbers in `tables`."""
        key = f"{numbers.dtype.kind}{numbers.tobytes().hex()}"
        if key not in self.known:
            self.known[key] = len(self.tables)
            self.tables.append([written(number) for number in np.ravel(numbers).tolist()])
        return self.known[key]

    def node(self, value: Any) -> int:
        """The line that computed an array or a number. A value that was not recorded depends on no
        input and gets a new line."""
        if isinstance(value, Taped):
            return value.node
        fixed = np.asarray(value)
        if fixed.dtype.kind not in "fiub" or np.isnan(fixed).any():
            raise Untaped(f"a constant of {fixed.dtype}")
        key = f"fixed {fixed.shape} {self.table(fixed + 0)}"
        if key not in self.known:
            self.known[key] = self.add(["fixed", self.table(fixed + 0)], fixed).node
        return self.known[key]

    def moved(self, source: int, indices: Any, value: Any, read: Sequence[Any] = ()) -> Taped:
        """An array with the entries of a line at flat indices.

        Argument read: the number of a line that holds an index, and how far the entries move when
        that index changes by one.
        """
        indices = np.asarray(indices)
        value = np.asarray(value)
        offset = int(indices.flat[0]) if indices.size else 0
        strides = [int(np.take(indices, 1, axis).flat[0]) - offset if size > 1 and indices.size
                   else 0 for axis, size in enumerate(indices.shape)]
        grid = np.indices(indices.shape)
        regular = offset + sum(stride * place for stride, place in zip(strides, grid, strict=True))
        if np.array_equal(np.broadcast_to(regular, indices.shape), indices):
            return self.add(["view", source, offset, strides, list(read)], value)
        if read:
            raise Untaped("an index among others")
        return self.add(["take", source, self.table(indices)], value)


class Taped(np.ndarray[Any, Any]):
    """An array that records on its tape the operations that it takes part in."""

    tape: Tape
    node: int

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name, tape = ufunc.__name__, tape_of(inputs)
        plain = [bare(value) for value in inputs]
        if method == "reduce" and name in REDUCED:
            return reduced(REDUCED[name], tape, inputs[0], ufunc.reduce(*plain, **options), options)
        if method != "__call__" or options or name not in {*UNARY, *BINARY, "matmul"}:
            raise Untaped(f"{name} {method} {options}")
        value = ufunc(*plain)
        if name == "matmul" and any(np.ndim(value) != 2 for value in plain):
            raise Untaped("a product of other arrays than matrices")
        return tape.add([name, *map(tape.node, inputs)], value)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function in PLAIN:
            return function(*map(bare, args), **options)
        if function is np.where and len(args) == 3:
            tape = tape_of(args)
            return tape.add(["where", *map(tape.node, args)], np.where(*map(bare, args)))
        if function in MOVED and isinstance(args[0], Taped):
            return args[0].rearranged(lambda array: function(array, *args[1:], **options))
        if function in JOINED:
            return joined(args[0], lambda arrays: function(arrays, *args[1:], **options))
        raise Untaped(function.__name__)

    def __getitem__(self, index: Any) -> Any:
        indices = list(index) if isinstance(index, tuple) else [index]
        read = [k for k, index in enumerate(indices) if isinstance(index, Taped)]
        if len(read) > 1:
            raise Untaped("several indices that are read")
        if not read:
            return self.rearranged(lambda array: array[index])
        k, = read
        word = indices[k]
        if word.ndim or word.dtype.kind not in "iu":
            raise Untaped("an index that is no number")

        def at(row: int, array: np.ndarray) -> np.ndarray:
            return array[(*indices[:k], row, *indices[k + 1 :])]

        flat, first = self.flat_indices(), at(0, self.flat_indices())
        stride = int(np.ravel(at(1, flat) - first)[0]) if flat.shape[k] > 1 else 0
        value = at(int(bare(word)), bare(self))
        return self.tape.moved(self.node, first, value, [[word.node, stride]])

    def flat_indices(self) -> np.ndarray:
        """The flat index of each entry."""
        return np.arange(self.size).reshape(self.shape)

    def rearranged(self, move: Callable[[np.ndarray], Any]) -> Any:
        """The result of a function that only moves entries of this array."""
        indices, value = move(self.flat_indices()), move(bare(self))
        if isinstance(value, (list, tuple)):
            return type(value)(self.tape.moved(self.node, *pair)
                               for pair in zip(indices, value, strict=True))
        return self.tape.moved(self.node, indices, value)

    @property
    def T(self) -> Any:
        return self.rearranged(np.transpose)

    real = property(lambda self: self, lambda self, value: self._refused())

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return self.rearranged(lambda array: array.reshape(*shape, **options))

    def astype(self, *_: Any, **__: Any) -> Any:
        return self

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise Untaped("a number that decides what is done, or an array that is written into")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = item = tolist = _refused
    __setitem__ = fill = sort = __iadd__ = __isub__ = __imul__ = __itruediv__ = _refused


def taped(tape: Tape, node: int, value: np.ndarray) -> Taped:
    """An array that is the result of a line."""
    array = np.array(value).view(Taped)
    array.tape, array.node = tape, node
    return array


def written(number: float) -> Any:
    """A number in a form that JSON can hold."""
    return f"{'-' * (number < 0)}Infinity" if number in (np.inf, -np.inf) else number


def bare(value: Any) -> Any:
    """An array without its tape."""
    return value.view(np.ndarray) if isinstance(value, Taped) else value


def tape_of(values: Sequence[Any]) -> Tape:
    """The tape of the first array that has one."""
    return next(value.tape for value in values if isinstance(value, Taped))


def reduced(name: str, tape: Tape, array: Any, value: Any, options: dict[str, Any]) -> Taped:
    """A sum, or the largest entry."""
    axis = options.get("axis", 0)
    if options.get("out") is not None or isinstance(axis, tuple):
        raise Untaped(f"{name} {options}")
    axis = None if axis is None else axis % max(1, np.ndim(array))
    return tape.add([name, tape.node(array), axis], value)


def joined(arrays: Sequence[Any], join: Callable[[list[Any]], np.ndarray]) -> Taped:
    """The concatenation of arrays."""
    tape, arrays = tape_of(arrays), [np.asanyarray(array) for array in arrays]
    starts = np.cumsum([0, *(array.size for array in arrays)])
    indices = join([start + np.arange(array.size).reshape(array.shape)
                    for start, array in zip(starts, arrays, strict=False)])
    plain = [bare(array) for array in arrays]
    flat = tape.add(["join", *map(tape.node, arrays)], np.concatenate([np.ravel(array)
                                                                       for array in plain]))
    return tape.moved(flat.node, indices, join(plain))
