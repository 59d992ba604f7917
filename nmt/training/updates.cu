// The optimizers' rules, as their papers print them, and the gradient's norm: optimizers.py.

// The place of `id` among n ascending ids; -1 if it is not there.
__device__ inline number place_of(number id, const number *ids, number n) {
    number low = 0, high = n;
    while (low < high) {
        number middle = (low + high) / 2;
        if (ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < n && ids[low] == id ? low : -1;
}

// rule(k, factor g) for elements k < size of an array in rows of `width`, a row a block. Without
// ids g is as large as the array. With ids, ascending, g has `count` rows: each row of the array is
// visited, with g = 0 where it has none; or, where `rows` is `count`, only those of the ids.
template <typename Rule> __device__ inline void visit(
    number rows, number width, number size, const number *ids, number count, const real *g,
    const real *factor, Rule rule) {
    real scale = *factor;
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        number row = ids && rows == count ? ids[n] : n;
        number place = ids && rows != count ? place_of(n, ids, count) : n;
        FOR_COLUMNS(j, width) {
            number k = row * width + j;
            if (k < size) rule(k, place < 0 ? real(0) : scale * g[place * width + j]);
        }
    }
}

// Thesis, Eq. 2.9.
extern "C" __global__ void sgd(
    number rows, number width, number size, const number *ids, number count, const real *g,
    const real *factor, real *p, double rate) {
    visit(rows, width, size, ids, count, g, factor,
          [=](number k, real g) { p[k] -= real(rate) * g; });
}

// Kingma and Ba's Algorithm 1; correction1 is 1 - beta1^t, correction2 is 1 - beta2^t.
extern "C" __global__ void adam(
    number rows, number width, number size, const number *ids, number count, const real *g,
    const real *factor, real *p, real *m, real *v, double rate, double beta1, double beta2,
    double epsilon, double correction1, double correction2) {
    visit(rows, width, size, ids, count, g, factor, [=](number k, real g) {
        real m_t = real(beta1) * m[k] + real(1 - beta1) * g;
        real v_t = real(beta2) * v[k] + real(1 - beta2) * g * g;
        real m_hat = m_t / real(correction1), v_hat = v_t / real(correction2);
        p[k] -= real(rate) * m_hat / (sqrt(v_hat) + real(epsilon));
        m[k] = m_t;
        v[k] = v_t;
    });
}

// Zeiler's Algorithm 1; g2 is E[g^2], d2 is E[d^2], d has the opposite sign.
extern "C" __global__ void adadelta(
    number rows, number width, number size, const number *ids, number count, const real *g,
    const real *factor, real *p, real *g2, real *d2, double rate, double rho, double epsilon) {
    visit(rows, width, size, ids, count, g, factor, [=](number k, real g) {
        real g2_t = real(rho) * g2[k] + real(1 - rho) * g * g;
        real d = sqrt(d2[k] + real(epsilon)) / sqrt(g2_t + real(epsilon)) * g;
        g2[k] = g2_t;
        d2[k] = real(rho) * d2[k] + real(1 - rho) * d * d;
        if (g != 0) p[k] -= real(rate) * d;  // rows without a gradient: p is not even read
    });
}

// sums[first + block] = the block's share of the sum of g^2, in double.
extern "C" __global__ void square_sums(number size, const real *g, double *sums, number first) {
    __shared__ double shared[MOST_THREADS];
    double sum = 0;
    FOR_EACH(k, size) sum += double(g[k]) * double(g[k]);
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) sums[first + blockIdx.x] = sum;
}

// norm = sqrt of the sum of `count` sums; one block.
extern "C" __global__ void square_root_of_sum(number count, const double *sums, double *norm) {
    __shared__ double shared[MOST_THREADS];
    double sum = 0;
    FOR_COLUMNS(k, count) sum += sums[k];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) *norm = sqrt(sum);
}
