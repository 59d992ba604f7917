// Recurrent cells: lstm/cells/.

// All of an LSTM's step between two products: z + recurrent + b, the gates, c, tanh c, h. u
// overwrites z. Eqs. 2.35-2.39.
extern "C" __global__ void lstm_forward(
    number rows, number H, real *z, number z_stride, const real *recurrent, number recurrent_stride,
    const real *b, const real *c_prev, number c_prev_stride, real *c, number c_stride, real *tanh_c,
    number tanh_c_stride, real *h, number h_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
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
        real now = f * c_prev[n * c_prev_stride + j] + i * h_hat;
        real squashed = tanh(now);
        tanh_c[n * tanh_c_stride + j] = squashed;
        c[n * c_stride + j] = now;
        h[n * h_stride + j] = o * squashed;
    }
}

// Algorithm 2, lines 7-13, after dh += d_out. dc becomes that of c_{t-1}.
extern "C" __global__ void lstm_backward(
    number rows, number H, real *dh, number dh_stride, const real *d_out, number d_out_stride,
    real *dc, number dc_stride, const real *u, number u_stride, const real *c_prev,
    number c_prev_stride, const real *tanh_c, number tanh_c_stride, real *dz, number dz_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        const real *gate = u + n * u_stride + j;
        real *d_gate = dz + n * dz_stride + j;
        real i = gate[0], f = gate[H], o = gate[2 * H], h_hat = gate[3 * H];
        real d = dh[n * dh_stride + j];
        if (d_out) dh[n * dh_stride + j] = d += d_out[n * d_out_stride + j];
        real squashed = tanh_c[n * tanh_c_stride + j];
        real d_tanh = o * d;
        real d_cell = dc[n * dc_stride + j] + d_tanh - squashed * squashed * d_tanh;  // (2.42)
        d_gate[2 * H] = squashed * d * (o - o * o);                                   // (2.41)
        d_gate[H] = c_prev[n * c_prev_stride + j] * d_cell * (f - f * f);             // (2.43)
        d_gate[0] = h_hat * d_cell * (i - i * i);                                     // (2.45)
        d_gate[3 * H] = i * d_cell * (real(1) - h_hat * h_hat);                       // (2.46)
        dc[n * dc_stride + j] = d_cell * f;                                           // (2.44)
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

// dz = (1 - y^2) dy for y = tanh(z): the vanilla unit, and the attentional vector.
extern "C" __global__ void tanh_backward(
    number rows, number H, const real *dy, number dy_stride, const real *y, number y_stride,
    real *dz, number dz_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real t = y[n * y_stride + j];
        dz[n * dz_stride + j] = (real(1) - t * t) * dy[n * dy_stride + j];
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

// The unit whose reset gate stands after the product (Cho 5-7, cuDNN's candidate): u holds W x and
// becomes m, z, h~; product is U h_prev; b has a fourth block, that of m.
extern "C" __global__ void gru_after_forward(
    number rows, number H, real *u, number u_stride, const real *product, number product_stride,
    const real *b, const real *h_prev, number h_prev_stride, real *h, number h_stride, real *r_out,
    number r_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        real *gate = u + n * u_stride + j;
        const real *more = product + n * product_stride + j;
        real a_r = gate[0] + more[0], a_z = gate[H] + more[H], a = gate[2 * H], m = more[2 * H];
        if (b) {
            a_r += b[j];
            a_z += b[H + j];
            a += b[2 * H + j];
            m += b[3 * H + j];
        }
        real r = sigmoid(a_r), z = sigmoid(a_z), h_tilde = tanh(a + r * m);
        gate[0] = m;
        gate[H] = z;
        gate[2 * H] = h_tilde;
        r_out[n * r_stride + j] = r;
        h[n * h_stride + j] = (h_prev[n * h_prev_stride + j] - h_tilde) * z + h_tilde;
    }
}

// Its backward up to the product: d_x of what x is multiplied to, d_h of the products with h_prev;
// dh keeps z o dh.
extern "C" __global__ void gru_after_backward(
    number rows, number H, real *dh, number dh_stride, const real *u, number u_stride,
    const real *h_prev, number h_prev_stride, const real *r_saved, number r_stride, real *d_x,
    number d_x_stride, real *d_h, number d_h_stride) {
    FOR_EACH(k, rows * H) {
        number n = k / (unsigned)H, j = k % (unsigned)H;
        const real *gate = u + n * u_stride + j;
        real *of_x = d_x + n * d_x_stride + j, *of_h = d_h + n * d_h_stride + j;
        real d = dh[n * dh_stride + j], r = r_saved[n * r_stride + j];
        real m = gate[0], z = gate[H], h_tilde = gate[2 * H];
        real da = (real(1) - h_tilde * h_tilde) * (d - z * d);
        of_x[0] = of_h[0] = m * da * (r - r * r);
        of_x[H] = of_h[H] = (h_prev[n * h_prev_stride + j] - h_tilde) * d * (z - z * z);
        of_x[2 * H] = da;
        of_h[2 * H] = r * da;
        dh[n * dh_stride + j] = z * d;
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
