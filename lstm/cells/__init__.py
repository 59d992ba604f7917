"""Recurrent cells: the mathematics of one time step, forward and backward."""

from lstm.cells.cell import Cell, State, Step
from lstm.cells.clipping import clipped
from lstm.cells.gru import GRU
from lstm.cells.gru_after import GRU_AFTER
from lstm.cells.lstm import LSTM
from lstm.cells.lstm_norm import LSTM_NORM
from lstm.cells.rnn import RNN

CELLS: dict[str, Cell] = {"lstm": LSTM, "rnn": RNN, "gru": GRU, "gru-after": GRU_AFTER,
                          "lstm-norm": LSTM_NORM}

__all__ = ["CELLS", "Cell", "State", "Step", "clipped"]
