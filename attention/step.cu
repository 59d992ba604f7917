// An LSTM's step (lstm.cuh) and attention from its new state (attention/step.py): a block a sentence.

// out[s] = x'rows[s] for count rows of a width, side by side. A group of threads takes a row.
__device__ inline void products(
    number count, number width, const real *x, const real *rows, real *out, real *shared) {
    unsigned lanes = blockDim.x < 32 ? blockDim.x : 32, groups = blockDim.x / lanes;
    unsigned lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
    for (number first = 0; first < count; first += groups) {
        number s = first + group;
        bool mine = group < groups && s < count;
        real sum = 0;
        if (mine)
            for (number j = lane; j < width; j += lanes) sum += x[j] * rows[s * width + j];
        shared[threadIdx.x] = sum;
        __syncthreads();
        for (unsigned n = lanes; n > 1;) {
            unsigned half = (n + 1) / 2;
            if (mine && lane + half < n) shared[threadIdx.x] += shared[threadIdx.x + half];
            __syncthreads();
            n = half;
        }
        if (mine && lane == 0) out[s] = shared[threadIdx.x];
        __syncthreads();
    }
}

// The LSTM's step; a = softmax(scale keys h), zero where `out` is true (Eq. 4.7); joined = [c; h],
// c = states'a (4.2.1), times the dropout mask where there is one. keys (B, S, H) and states
// (B, S, He) contiguous; strides of `out` in bytes.
extern "C" __global__ void lstm_attend(
    number rows, number H, real *z, number z_stride, const real *recurrent, number recurrent_stride,
    const real *b, const real *h_prev, number h_prev_stride, const real *c_prev,
    number c_prev_stride, real *c, number c_stride, real *tanh_c, number tanh_c_stride, real *h,
    number h_stride, const unsigned char *pad, number pad_stride, number S, number He,
    const real *keys, const real *states, double scale, const unsigned char *out, number out_b,
    number out_s, const real *dropout, number dropout_stride, real *a, real *joined,
    number joined_stride) {
    __shared__ real shared[MOST_THREADS];
    LstmForward lstm = {H, z, z_stride, recurrent, recurrent_stride, b, h_prev, h_prev_stride,
                        c_prev, c_prev_stride, c, c_stride, tanh_c, tanh_c_stride, h, h_stride,
                        pad, pad_stride};
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        const real *kept = dropout ? dropout + n * dropout_stride : 0, *state = states + n * S * He;
        real *both = joined + n * joined_stride, *weight = a + n * S;
        FOR_COLUMNS(j, H) {
            real now = lstm.unit(n, j);
            both[He + j] = kept ? now * kept[He + j] : now;
        }
        __syncthreads();
        products(S, H, h + n * h_stride, keys + n * S * H, weight, shared);
        softmax_row(S, weight, out ? out + n * out_b : 0, out_s, real(scale), shared);
        __syncthreads();
        FOR_COLUMNS(j, He) {
            real context = 0;
            for (number s = 0; s < S; s++) context += weight[s] * state[s * He + j];
            both[j] = kept ? context * kept[j] : context;
        }
    }
}

// Its backward: dc, the first He columns of d_joined times the dropout mask where there is one;
// de = softmax backward of states dc; and the LSTM's from dh + scale keys'de + the other columns.
extern "C" __global__ void attend_lstm_backward(
    number rows, number H, real *dh, number dh_stride, real *d_cell, number d_cell_stride,
    const real *u, number u_stride, const real *c_prev, number c_prev_stride, const real *tanh_c,
    number tanh_c_stride, real *dz, number dz_stride, const unsigned char *pad, number pad_stride,
    real *unclipped, number unclipped_stride, double limit, number S, number He, const real *keys,
    const real *states, double scale, const real *a, const real *d_joined, number d_joined_stride,
    const real *dropout, number dropout_stride, real *dc, number dc_stride, real *de) {
    __shared__ real shared[MOST_THREADS];
    LstmBackward lstm = {H, dh, dh_stride, d_cell, d_cell_stride, u, u_stride, c_prev,
                         c_prev_stride, tanh_c, tanh_c_stride, dz, dz_stride, pad, pad_stride,
                         unclipped, unclipped_stride, limit};
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        const real *kept = dropout ? dropout + n * dropout_stride : 0;
        const real *both = d_joined + n * d_joined_stride, *key = keys + n * S * H;
        real *d_context = dc + n * dc_stride, *d_energy = de + n * S;
        FOR_COLUMNS(j, He) d_context[j] = kept ? both[j] * kept[j] : both[j];
        __syncthreads();
        products(S, He, d_context, states + n * S * He, d_energy, shared);
        softmax_row_backward(S, d_energy, a + n * S, real(1), shared);
        __syncthreads();
        FOR_COLUMNS(j, H) {
            real more = 0;
            for (number s = 0; s < S; s++) more += d_energy[s] * key[s * H + j];
            lstm.unit(n, j, real(scale) * more + (kept ? both[He + j] * kept[He + j]
                                                       : both[He + j]));
        }
    }
}
