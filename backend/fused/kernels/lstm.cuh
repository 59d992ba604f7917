// An LSTM's step between two products (lstm/cells/lstm.py), a unit j of a row n at a time.

// z + recurrent + b, the gates, c, tanh c, h; where padded the state before passes through. u
// overwrites z. Eqs. 2.35-2.39.
struct LstmForward {
    number H;
    real *z;
    number z_stride;
    const real *recurrent;
    number recurrent_stride;
    const real *b, *h_prev;
    number h_prev_stride;
    const real *c_prev;
    number c_prev_stride;
    real *c;
    number c_stride;
    real *tanh_c;
    number tanh_c_stride;
    real *h;
    number h_stride;
    const unsigned char *pad;
    number pad_stride;

    // Returns h.
    __device__ real unit(number n, number j) const {
        real *u = z + n * z_stride + j;
        real a[4];
        for (int gate = 0; gate < 4; gate++) {
            a[gate] = u[gate * H];
            if (recurrent) a[gate] += recurrent[n * recurrent_stride + gate * H + j];
            if (b) a[gate] += b[gate * H + j];
        }
        real i = sigmoid(a[0]), f = sigmoid(a[1]), o = sigmoid(a[2]), h_hat = tanh(a[3]);
        u[0] = i;
        u[H] = f;
        u[2 * H] = o;
        u[3 * H] = h_hat;
        real before = c_prev[n * c_prev_stride + j];
        real now = f * before + i * h_hat;
        real squashed = tanh(now);
        tanh_c[n * tanh_c_stride + j] = squashed;
        bool padded = pad && pad[n * pad_stride];
        c[n * c_stride + j] = padded ? before : now;
        return h[n * h_stride + j] = padded ? h_prev[n * h_prev_stride + j] : o * squashed;
    }
};

// Element-wise clipping (2.2.2).
__device__ inline real clipped(real d, real limit) {
    return d > limit ? limit : d < -limit ? -limit : d;
}

// Algorithm 2, lines 7-13, with what surrounds it in a step: `more` is added to dh; where padded, dh
// is copied and nothing goes to dz; otherwise dh is clipped to +-limit (0: it is not). dc becomes
// that of c_{t-1}.
struct LstmBackward {
    number H;
    real *dh;
    number dh_stride;
    real *dc;
    number dc_stride;
    const real *u;
    number u_stride;
    const real *c_prev;
    number c_prev_stride;
    const real *tanh_c;
    number tanh_c_stride;
    real *dz;
    number dz_stride;
    const unsigned char *pad;
    number pad_stride;
    real *unclipped;
    number unclipped_stride;
    double limit;

    __device__ void unit(number n, number j, real more) const {
        const real *gate = u + n * u_stride + j;
        real *d_gate = dz + n * dz_stride + j;
        real i = gate[0], f = gate[H], o = gate[2 * H], h_hat = gate[3 * H];
        real d = dh[n * dh_stride + j] + more;
        if (unclipped) unclipped[n * unclipped_stride + j] = d;
        if (limit > 0) d = clipped(d, real(limit));
        dh[n * dh_stride + j] = d;
        if (pad && pad[n * pad_stride]) {
            d_gate[0] = d_gate[H] = d_gate[2 * H] = d_gate[3 * H] = real(0);
            return;
        }
        real squashed = tanh_c[n * tanh_c_stride + j];
        real d_tanh = o * d;
        real d_cell = dc[n * dc_stride + j] + d_tanh - squashed * squashed * d_tanh;  // (2.42)
        d_gate[2 * H] = squashed * d * (o - o * o);                                   // (2.41)
        d_gate[H] = c_prev[n * c_prev_stride + j] * d_cell * (f - f * f);             // (2.43)
        d_gate[0] = h_hat * d_cell * (i - i * i);                                     // (2.45)
        d_gate[3 * H] = i * d_cell * (real(1) - h_hat * h_hat);                       // (2.46)
        real d_before = d_cell * f;                                                   // (2.44)
        dc[n * dc_stride + j] = limit > 0 ? clipped(d_before, real(limit)) : d_before;
    }
};
