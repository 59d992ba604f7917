// Recurrent cells: lstm/cells/.

// An LSTM's step (lstm.cuh), and `above` = h, times the dropout mask where there is one, for the
// layer above, where there is one.
extern "C" __global__ void lstm_forward(
    number rows, number H, real *z, number z_stride, const real *recurrent, number recurrent_stride,
    const real *b, const real *h_prev, number h_prev_stride, const real *c_prev,
    number c_prev_stride, real *c, number c_stride, real *tanh_c, number tanh_c_stride, real *h,
    number h_stride, const unsigned char *pad, number pad_stride, real *above, number above_stride,
    const real *dropout, number dropout_stride) {
    LstmForward lstm = {H, z, z_stride, recurrent, recurrent_stride, b, h_prev, h_prev_stride,
                        c_prev, c_prev_stride, c, c_stride, tanh_c, tanh_c_stride, h, h_stride,
                        pad, pad_stride};
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real now = lstm.unit(n, j);
        if (dropout) now *= dropout[n * dropout_stride + j];
        if (above) above[n * above_stride + j] = now;
    }
}

// Its backward, with the gradient of the output, d_out, where there is one, times a dropout mask
// where there is one.
extern "C" __global__ void lstm_backward(
    number rows, number H, real *dh, number dh_stride, real *dc, number dc_stride, const real *u,
    number u_stride, const real *c_prev, number c_prev_stride, const real *tanh_c,
    number tanh_c_stride, real *dz, number dz_stride, const unsigned char *pad, number pad_stride,
    real *unclipped, number unclipped_stride, double limit, const real *d_out, number d_out_stride,
    const real *dropout, number dropout_stride) {
    LstmBackward lstm = {H, dh, dh_stride, dc, dc_stride, u, u_stride, c_prev, c_prev_stride,
                         tanh_c, tanh_c_stride, dz, dz_stride, pad, pad_stride, unclipped,
                         unclipped_stride, limit};
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real more = d_out ? d_out[n * d_out_stride + j] : real(0);
        if (dropout) more *= dropout[n * dropout_stride + j];
        lstm.unit(n, j, more);
    }
}

// z += recurrent + b, either of which may be missing (Eq. 2.39).
extern "C" __global__ void add_rows(
    number rows, number columns, real *z, number z_stride, const real *recurrent,
    number recurrent_stride, const real *b) {
    FOR_EACH(k, rows * columns) {
        number n = k / (unsigned)columns, j = k % (unsigned)columns;
        real sum = z[n * z_stride + j];
        if (recurrent) sum += recurrent[n * recurrent_stride + j];
        if (b) sum += b[j];
        z[n * z_stride + j] = sum;
    }
}

// Where padded, the old arrays overwrite the new ones: one pair of arrays, or two.
extern "C" __global__ void copy_through(
    number rows, number H, const unsigned char *pad, number pad_stride, const real *old_1,
    number old_1_stride, real *new_1, number new_1_stride, const real *old_2, number old_2_stride,
    real *new_2, number new_2_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        if (!pad[n * pad_stride]) continue;
        new_1[n * new_1_stride + j] = old_1[n * old_1_stride + j];
        if (new_2) new_2[n * new_2_stride + j] = old_2[n * old_2_stride + j];
    }
}

// dz = (1 - y^2) (dy + more) for y = tanh(z): the vanilla unit, and the attentional vector. `more` may
// be missing.
extern "C" __global__ void tanh_backward(
    number rows, number H, const real *dy, number dy_stride, const real *y, number y_stride,
    real *dz, number dz_stride, const real *more, number more_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real t = y[n * y_stride + j], d = dy[n * dy_stride + j];
        if (more) d += more[n * more_stride + j];
        dz[n * dz_stride + j] = (real(1) - t * t) * d;
    }
}

// Gates r, z of the gated unit from u + product, and m = r o h_prev (Bahdanau A.2.1).
extern "C" __global__ void gru_gates_forward(
    number rows, number H, real *u, number u_stride, const real *product, number product_stride,
    const real *h_prev, number h_prev_stride, real *m, number m_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real *gate = u + n * u_stride + j;
        const real *more = product + n * product_stride + j;
        real r = sigmoid(gate[0] + more[0]);
        gate[0] = r;
        gate[H] = sigmoid(gate[H] + more[H]);
        m[n * m_stride + j] = r * h_prev[n * h_prev_stride + j];
    }
}

// h~ = tanh(u + h), h = h_prev + z (h~ - h_prev); h holds the second product beforehand.
extern "C" __global__ void gru_state_forward(
    number rows, number H, real *u, number u_stride, const real *h_prev, number h_prev_stride,
    real *h, number h_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real *gate = u + n * u_stride + j;
        real before = h_prev[n * h_prev_stride + j];
        real h_tilde = tanh(gate[2 * H] + h[n * h_stride + j]);
        gate[2 * H] = h_tilde;
        h[n * h_stride + j] = (h_tilde - before) * gate[H] + before;
    }
}

// Up to the second product: dz of z and of the proposal, the slope of r; dh keeps (1 - z) o dh.
extern "C" __global__ void gru_state_backward(
    number rows, number H, real *dh, number dh_stride, const real *u, number u_stride,
    const real *h_prev, number h_prev_stride, real *dz, number dz_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        const real *gate = u + n * u_stride + j;
        real *d_gate = dz + n * dz_stride + j;
        real d = dh[n * dh_stride + j], r = gate[0], z = gate[H], h_tilde = gate[2 * H];
        real proposal = z * d;
        d_gate[0] = r - r * r;
        d_gate[H] = (h_tilde - h_prev[n * h_prev_stride + j]) * d * (z - z * z);
        d_gate[2 * H] = (real(1) - h_tilde * h_tilde) * proposal;
        dh[n * dh_stride + j] = d - proposal;
    }
}

// From dm, the gradient of m = r o h_prev: dz of r, where its slope stands, and dh += r o dm.
extern "C" __global__ void gru_gates_backward(
    number rows, number H, const real *dm, number dm_stride, real *dh, number dh_stride,
    const real *u, number u_stride, const real *h_prev, number h_prev_stride, real *dz,
    number dz_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real d = dm[n * dm_stride + j];
        dz[n * dz_stride + j] *= h_prev[n * h_prev_stride + j] * d;
        dh[n * dh_stride + j] += u[n * u_stride + j] * d;
    }
}

// out = [left; right], both times the mask where there is one.
extern "C" __global__ void join(
    number rows, number left_width, number right_width, const real *left, number left_stride,
    const real *right, number right_stride, const real *mask, number mask_stride, real *out,
    number out_stride) {
    number width = left_width + right_width;
    FOR_EACH(k, rows * width) {
        number n = k / (unsigned)width, j = k % (unsigned)width;
        real value = j < left_width ? left[n * left_stride + j]
                                    : right[n * right_stride + j - left_width];
        out[n * out_stride + j] = mask ? value * mask[n * mask_stride + j] : value;
    }
}

// d_out times the mask where there is one, and left, a copy of its first columns.
extern "C" __global__ void join_backward(
    number rows, number columns, number left_width, real *d_out, number d_out_stride,
    const real *mask, number mask_stride, real *left, number left_stride) {
    FOR_EACH(k, rows * columns) {
        number n = k / (unsigned)columns, j = k % (unsigned)columns;
        real value = d_out[n * d_out_stride + j];
        if (mask) d_out[n * d_out_stride + j] = value = value * mask[n * mask_stride + j];
        if (j < left_width) left[n * left_stride + j] = value;
    }
}
