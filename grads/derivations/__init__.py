"""The papers' algorithms, literally: to be read beside the printed page, and to test kernels by.

Vectors are columns (d, 1); one example; one time step per loop iteration; one equation per line
with its number (Luong, 2016) in the trailing comment; nothing is computed in place; every dtype
works. Time and layers count from 1 as printed: `h[0]` is the initial state, `h[t][l]` is layer l at
t. Parameters carry the kernels' names, shapes and layer numbers (from 0): a row of the kernels' W_e
(V, E) is a column of the thesis's W_e (d_e x |V|), a bias (d,) is a column here.
"""
