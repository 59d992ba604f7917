// Optimizers and the gradient's norm: nmt/training/optimizers.py, nmt/training/adadelta.py.
// `factor` is a number on the device (0 for none), `times` one from the host; their product
// multiplies the gradient.

__device__ inline real scale_of(const real *factor, double times) {
    return factor ? *factor * real(times) : real(times);
}

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

// p -= factor g (Eq. 2.9).
extern "C" __global__ void sgd(
    number size, real *p, const real *g, const real *factor, double times) {
    real scale = scale_of(factor, times);
    FOR_EACH(k, size) p[k] -= scale * g[k];
}

// The same on the rows `ids`.
extern "C" __global__ void sgd_rows(
    number count, number width, real *p, const number *ids, const real *values, const real *factor,
    double times) {
    real scale = scale_of(factor, times);
    FOR_EACH(k, count * width) {
        number n = k / (unsigned)width, j = k % (unsigned)width;
        p[ids[n] * width + j] -= scale * values[k];
    }
}

// Kingma and Ba's Algorithm 1 on one number. w is (1 - beta1) g; square turns w^2 into
// (1 - beta2) g^2; epsilon and rate carry the corrections of the biases.
__device__ inline void adam_one(
    real *p, real *m, real *v, real w, double beta1, double beta2, double square, double epsilon,
    double rate) {
    real first = *m * real(beta1) + w;
    real second = *v * real(beta2) + w * w * real(square);
    *m = first;
    *v = second;
    *p -= first / (sqrt(second) + real(epsilon)) * real(rate);
}

extern "C" __global__ void adam(
    number size, real *p, real *m, real *v, const real *g, const real *factor, double times,
    double beta1, double beta2, double square, double epsilon, double rate) {
    real scale = scale_of(factor, times);
    FOR_EACH(k, size)
        adam_one(p + k, m + k, v + k, scale * g[k], beta1, beta2, square, epsilon, rate);
}

// All rows of a table, a block each; rows that are not among the ids have gradient zero.
extern "C" __global__ void adam_rows(
    number table_rows, number width, real *p, real *m, real *v, number count, const number *ids,
    const real *values, const real *factor, double times, double beta1, double beta2, double square,
    double epsilon, double rate) {
    real scale = scale_of(factor, times);
    for (number n = blockIdx.x; n < table_rows; n += gridDim.x) {
        number place = place_of(n, ids, count);
        FOR_COLUMNS(j, width) {
            number k = n * width + j;
            real w = place < 0 ? real(0) : scale * values[place * width + j];
            adam_one(p + k, m + k, v + k, w, beta1, beta2, square, epsilon, rate);
        }
    }
}

// Zeiler's Algorithm 1 on one number: g is the gradient, `squares` and `steps` the averages.
__device__ inline void adadelta_one(
    real *p, real *squares, real *steps, real g, double rho, double epsilon, double rate) {
    real square = *squares * real(rho) + g * g * real(1 - rho);
    real step = g / sqrt(square + real(epsilon)) * sqrt(*steps + real(epsilon));
    *squares = square;
    *steps = *steps * real(rho) + step * step * real(1 - rho);
    *p -= step * real(rate);
}

extern "C" __global__ void adadelta(
    number size, real *p, real *squares, real *steps, const real *g, const real *factor,
    double times, double rho, double epsilon, double rate) {
    real scale = scale_of(factor, times);
    FOR_EACH(k, size)
        adadelta_one(p + k, squares + k, steps + k, scale * g[k], rho, epsilon, rate);
}

// All rows of a table, a block each; where the gradient is zero only the averages decay.
extern "C" __global__ void adadelta_rows(
    number table_rows, number width, real *p, real *squares, real *steps, number count,
    const number *ids, const real *values, const real *factor, double times, double rho,
    double epsilon, double rate) {
    real scale = scale_of(factor, times);
    for (number n = blockIdx.x; n < table_rows; n += gridDim.x) {
        number place = place_of(n, ids, count);
        FOR_COLUMNS(j, width) {
            number k = n * width + j;
            if (place >= 0) {
                adadelta_one(p + k, squares + k, steps + k, scale * values[place * width + j], rho,
                             epsilon, rate);
            } else {
                squares[k] *= real(rho);
                steps[k] *= real(rho);
            }
        }
    }
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
