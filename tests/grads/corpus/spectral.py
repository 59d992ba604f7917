"""Matrix functions and spectra, right, and the mistakes that people make in them."""

import numpy as np


def correlate_inputs(rng):
    return rng.normal(size=8), rng.normal(size=3)


def correlate_forward(x, w):
    return np.correlate(x, w, mode="valid"), (x, w)


def correlate_backward(dy, cache):
    x, w = cache
    dx = np.convolve(dy, w)
    dw = np.correlate(x, dy, mode="valid")
    return dx, dw


correlate_wrong = [
    ("dx = np.convolve(dy, w)", "dx = np.convolve(dy, w[::-1])", "dx", "the filter flipped",
     "flipped"),
    ("dw = np.correlate(x, dy, mode=\"valid\")", "dw = np.convolve(x, dy, mode=\"valid\")", "dw",
     "a convolution for a correlation"),
]


def power_spectrum_inputs(rng):
    return [rng.normal(size=6)]


def power_spectrum_forward(x):
    X = np.fft.rfft(x)
    return np.abs(X) ** 2, X


def power_spectrum_backward(dp, X):
    dx = 2 * np.fft.fft(dp * np.conj(X), 6).real
    return dx


power_spectrum_wrong = [
    ("np.fft.fft(dp * np.conj(X), 6).real", "np.fft.fft(dp * X, 6).real", "dx",
     "the conjugate forgotten"),
    ("2 * np.fft.fft(dp * np.conj(X), 6).real", "np.fft.irfft(dp * X, 6)", "dx",
     "the inverse transform, which divides by n"),
]


def spectral_filter_inputs(rng):
    return rng.normal(size=6), rng.normal(size=4)


def spectral_filter_forward(x, g):
    X = np.fft.rfft(x)
    return np.fft.irfft(g * X, 6), (X, g)


def spectral_filter_backward(dy, cache):
    X, g = cache
    share = np.array([1, 2, 2, 1]) / 6
    dx = np.fft.irfft(g * np.fft.rfft(dy), 6)
    dg = share * (X * np.conj(np.fft.rfft(dy))).real
    return dx, dg


spectral_filter_wrong = [
    ("np.array([1, 2, 2, 1])", "np.array([2, 2, 2, 2])", "dg",
     "the first and last frequency counted twice"),
    ("(X * np.conj(np.fft.rfft(dy))).real", "(X * np.fft.rfft(dy)).real", "dg",
     "the conjugate forgotten"),
]


def eigenvalues_inputs(rng):
    return [rng.normal(size=(3, 3))]


def eigenvalues_forward(A):
    values, V = np.linalg.eigh(A + A.T)
    return values, V


def eigenvalues_backward(dvalues, V):
    dS = (V * dvalues) @ V.T
    dA = dS + dS.T
    return dA


eigenvalues_wrong = [
    ("dA = dS + dS.T", "dA = dS", "dA", "one of two uses forgotten", "factor 0.5"),
    ("dS = (V * dvalues) @ V.T", "dS = (V.T * dvalues) @ V", "dS", "rows for columns"),
]


def cholesky_inputs(rng):
    return [rng.normal(size=(3, 3))]


def cholesky_forward(A):
    L = np.linalg.cholesky(A @ A.T + np.eye(3))
    return L, (A, L)


def cholesky_backward(dL, cache):
    A, L = cache
    P = np.tril(L.T @ np.tril(dL))
    P[np.diag_indices(3)] /= 2
    inverse = np.linalg.inv(L)
    dS = inverse.T @ P @ inverse
    dA = (dS + dS.T) @ A
    return dA


cholesky_wrong = [
    ("P[np.diag_indices(3)] /= 2", "pass", "dS", "the diagonal counted twice"),
    ("dA = (dS + dS.T) @ A", "dA = 2 * dS @ A", "dA", "right only for a symmetric gradient"),
    ("dS = inverse.T @ P @ inverse", "dS = inverse @ P @ inverse.T", "dS", "transposed"),
]


def log_determinant_inputs(rng):
    return [rng.normal(size=(4, 4))]


def log_determinant_forward(A):
    return np.linalg.slogdet(A)[1], A


def log_determinant_backward(dy, A):
    dA = dy * np.linalg.inv(A).T
    return dA


log_determinant_wrong = [
    ("np.linalg.inv(A).T", "np.linalg.inv(A)", "dA", "not transposed", "equals the transpose"),
]


def nuclear_norm_inputs(rng):
    return [rng.normal(size=(3, 4))]


def nuclear_norm_forward(A):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return s.sum(), (U, Vt)


def nuclear_norm_backward(dy, cache):
    U, Vt = cache
    dA = dy * U @ Vt
    return dA


nuclear_norm_wrong = [
    ("dA = dy * U @ Vt", "dA = dy * np.abs(U @ Vt)", "dA", "signs lost"),
    ("dA = dy * U @ Vt", "dA = U @ Vt", "dA", "the upstream gradient forgotten",
     "upstream gradient"),
]


def least_squares_inputs(rng):
    return rng.normal(size=(5, 2)), rng.normal(size=5)


def least_squares_forward(X, y):
    w = np.linalg.lstsq(X, y, rcond=None)[0]
    return w, (X, y, w)


def least_squares_backward(dw, cache):
    X, y, w = cache
    s = np.linalg.solve(X.T @ X, dw)
    dy = X @ s
    dX = np.outer(y - X @ w, s) - np.outer(dy, w)
    return dX, dy


least_squares_wrong = [
    ("np.outer(y - X @ w, s) - np.outer(dy, w)", "-np.outer(dy, w)", "dX",
     "right only where the fit is exact"),
    ("np.outer(y - X @ w, s)", "np.outer(X @ w - y, s)", "dX", "a sign"),
]


def matrix_power_inputs(rng):
    return [rng.normal(size=(3, 3))]


def matrix_power_forward(A):
    return np.linalg.matrix_power(A, 3), A


def matrix_power_backward(dM, A):
    T = A.T
    dA = dM @ T @ T + T @ dM @ T + T @ T @ dM
    return dA


matrix_power_wrong = [
    ("dM @ T @ T + T @ dM @ T + T @ T @ dM", "3 * T @ T @ dM", "dA",
     "right only where the matrices commute"),
    (" + T @ dM @ T", "", "dA", "one of three uses forgotten"),
]


def trace_of_inverse_inputs(rng):
    return [2 * np.eye(3) + rng.normal(size=(3, 3)) / 2]


def trace_of_inverse(A):
    return np.trace(np.linalg.inv(A))


def trace_of_inverse_gradient(A):
    B = np.linalg.inv(A)
    dA = -(B @ B).T
    return dA


trace_of_inverse_wrong = [
    ("dA = -(B @ B).T", "dA = -(B * B).T", "dA", "squares of the entries for the matrix's square"),
    ("dA = -(B @ B).T", "dA = -(B @ B)", "dA", "not transposed", "equals the transpose"),
]
