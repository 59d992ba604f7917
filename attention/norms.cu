// Norms (attention/norms.py): a block per vector (d,). All are x_hat = (x - m) / size and
// y = g o x_hat + b: m is the mean where `centred`, else 0; size is sqrt(mean of squares + eps)
// where `averaged`, else the vector's length, but at least eps.

// g (d,) has a step of 1, g (1,) of 0; without g, `fixed` is one number for all. b and own may be
// missing; own says whether size is the vector's own length.
extern "C" __global__ void norm_forward(
    number rows, number d, const real *x, number centred, number averaged, double eps,
    const real *g, number g_step, double fixed, const real *b, real *x_hat, real *size,
    unsigned char *own, real *y) {
    __shared__ real shared[MOST_THREADS];
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        const real *from = x + n * d;
        real m = 0, square = 0;
        if (centred) {
            FOR_COLUMNS(j, d) m += from[j];
            m = block_sum(m, shared) / d;
        }
        FOR_COLUMNS(j, d) square += (from[j] - m) * (from[j] - m);
        square = block_sum(square, shared);
        real least = real(eps) * real(eps);
        bool longer = square > least;
        real s = averaged ? sqrt(square / d + real(eps)) : sqrt(longer ? square : least);
        if (threadIdx.x == 0) {
            size[n] = s;
            if (own) own[n] = longer;
        }
        FOR_COLUMNS(j, d) {
            real unit = (from[j] - m) / s;
            x_hat[n * d + j] = unit;
            y[n * d + j] = (g ? g[j * g_step] : real(fixed)) * unit + (b ? b[j] : real(0));
        }
    }
}

// dx, and the gradients of g and b summed over this block's vectors: dg (d,) and, where `centred`,
// db (d,) after it where g has a step of 1, else dg (1,). A block has a row of `partial`, in which
// each thread adds to columns of its own; `column_sums` adds up the rows in their order.
extern "C" __global__ void norm_backward(
    number rows, number d, const real *dy, const real *x_hat, const real *size,
    const unsigned char *own, number centred, number averaged, const real *g, number g_step,
    double fixed, real *dx, real *partial, number width) {
    __shared__ real shared[MOST_THREADS];
    real *sums = partial + blockIdx.x * width;
    real factor = g_step ? real(1) : g ? g[0] : real(fixed);  // before the bracket
    real total = 0;
    if (g_step) FOR_COLUMNS(j, d) {
        sums[j] = 0;
        if (centred) sums[d + j] = 0;
    }
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        const real *from = dy + n * d, *unit = x_hat + n * d;
        real mean = 0, along = 0;
        FOR_COLUMNS(j, d) {
            real one = g_step ? g[j] * from[j] : from[j];
            mean += one;
            along += one * unit[j];
            if (g_step) sums[j] += from[j] * unit[j];
            if (g_step && centred) sums[d + j] += from[j];
        }
        mean = centred ? block_sum(mean, shared) / d : real(0);
        along = block_sum(along, shared);
        total += along;
        if (averaged) along /= d;
        else if (own && !own[n]) along = 0;
        FOR_COLUMNS(j, d) {
            real one = g_step ? g[j] * from[j] : from[j];
            dx[n * d + j] = factor / size[n] * (one - mean - unit[j] * along);
        }
    }
    if (!g_step && threadIdx.x == 0) sums[0] = total;
}

// sums[j] = sum over n of x[n, j]: a block per column.
extern "C" __global__ void column_sums(number rows, number width, const real *x, real *sums) {
    __shared__ real shared[MOST_THREADS];
    for (number j = blockIdx.x; j < width; j += gridDim.x) {
        real sum = 0;
        FOR_COLUMNS(n, rows) sum += x[n * width + j];
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) sums[j] = sum;
    }
}
