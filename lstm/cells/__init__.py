"""Recurrent cells: the mathematics of one time step, forward and backward."""

from lstm.cells.cell import Above, Cell, FromAbove, Reader, ReaderGradient, State, Step
from lstm.cells.gru import GRU
from lstm.cells.lstm import LSTM
from lstm.cells.rnn import RNN

CELLS: dict[str, Cell] = {"lstm": LSTM, "rnn": RNN, "gru": GRU}

__all__ = ["CELLS", "Above", "Cell", "FromAbove", "Reader", "ReaderGradient", "State", "Step"]
