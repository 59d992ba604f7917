// The optimizers' rules, as their papers print them, and the gradient's norm: optimizers.py. `keep`
// is 1 - rate lambda, the share of p that weight decay leaves.

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

// Several arrays in rows of `width`, a row a block. The table has a column for each array: the first
// of its rows among all of them, its size, and addresses.
struct Arrays {
    const number *table, count;

    __device__ number of(number row) const {  // the array that has this row
        number low = 0, high = count - 1;
        while (low < high) {
            number middle = (low + high + 1) / 2;
            if (table[middle] <= row) low = middle;
            else high = middle - 1;
        }
        return low;
    }
    __device__ number first(number array) const { return table[array]; }
    __device__ number size(number array) const { return table[count + array]; }
    __device__ real *address(number field, number array) const {
        return (real *)table[(2 + field) * count + array];
    }
};

// rule(k, factor g, p, and what state there is) for every element k of every array. Without ids g is
// as large as its array. With ids, ascending, there is one array, and g has `count` rows: each row of
// the array is visited, with g = 0 where it has none; or, where `rows` is `count`, only those of ids.
template <typename Rule> __device__ inline void visit(
    number rows, number width, Arrays arrays, int states, const number *ids, number count,
    const real *factor, Rule rule) {
    real scale = *factor;
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        number array = arrays.of(n), own = n - arrays.first(array), size = arrays.size(array);
        number row = ids && rows == count ? ids[n] : own;
        number place = ids && rows != count ? place_of(n, ids, count) : own;
        const real *g = arrays.address(0, array);
        real *p = arrays.address(1, array);
        real *first = states > 0 ? arrays.address(2, array) : 0;
        real *second = states > 1 ? arrays.address(3, array) : 0;
        FOR_COLUMNS(j, width) {
            number k = row * width + j;
            if (k < size) rule(k, place < 0 ? real(0) : scale * g[place * width + j], p, first, second);
        }
    }
}

// Thesis, Eq. 2.9.
extern "C" __global__ void sgd(
    number rows, number width, const number *table, number arrays, const number *ids, number count,
    const real *factor, double keep, double rate) {
    visit(rows, width, Arrays{table, arrays}, 0, ids, count, factor,
          [=](number k, real g, real *p, real *, real *) { p[k] = real(keep) * p[k] - real(rate) * g; });
}

// Kingma and Ba's Algorithm 1; correction1 is 1 - beta1^t, correction2 is 1 - beta2^t.
extern "C" __global__ void adam(
    number rows, number width, const number *table, number arrays, const number *ids, number count,
    const real *factor, double keep, double rate, double beta1, double beta2, double epsilon,
    double correction1, double correction2) {
    visit(rows, width, Arrays{table, arrays}, 2, ids, count, factor,
          [=](number k, real g, real *p, real *m, real *v) {
        real m_t = real(beta1) * m[k] + real(1 - beta1) * g;
        real v_t = real(beta2) * v[k] + real(1 - beta2) * g * g;
        real m_hat = m_t / real(correction1), v_hat = v_t / real(correction2);
        p[k] = real(keep) * p[k] - real(rate) * m_hat / (sqrt(v_hat) + real(epsilon));
        m[k] = m_t;
        v[k] = v_t;
    });
}

// Zeiler's Algorithm 1; g2 is E[g^2], d2 is E[d^2], d has the opposite sign.
extern "C" __global__ void adadelta(
    number rows, number width, const number *table, number arrays, const number *ids, number count,
    const real *factor, double keep, double rate, double rho, double epsilon) {
    visit(rows, width, Arrays{table, arrays}, 2, ids, count, factor,
          [=](number k, real g, real *p, real *g2, real *d2) {
        real g2_t = real(rho) * g2[k] + real(1 - rho) * g * g;
        real d = sqrt(d2[k] + real(epsilon)) / sqrt(g2_t + real(epsilon)) * g;
        g2[k] = g2_t;
        d2[k] = real(rho) * d2[k] + real(1 - rho) * d * d;
        if (g != 0 || keep != 1) p[k] = real(keep) * p[k] - real(rate) * d;  // else p is not read
    });
}

// a = (1 - weight) a + weight p of every element of every array.
extern "C" __global__ void move_averages(
    number rows, number width, const number *table, number arrays, double weight) {
    Arrays all{table, arrays};
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        number array = all.of(n), start = (n - all.first(array)) * width;
        const real *p = all.address(0, array);
        real *a = all.address(1, array);
        FOR_COLUMNS(j, width) {
            number k = start + j;
            if (k < all.size(array)) a[k] = real(1 - weight) * a[k] + real(weight) * p[k];
        }
    }
}

// sums[row] = the sum of g^2 over each row of all arrays, in double.
extern "C" __global__ void square_sums(
    number rows, number width, const number *table, number arrays, double *sums) {
    __shared__ double shared[MOST_THREADS];
    Arrays all{table, arrays};
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        number array = all.of(n), start = (n - all.first(array)) * width;
        const real *g = all.address(0, array) + start;
        double sum = 0;
        FOR_COLUMNS(j, width) if (start + j < all.size(array)) sum += double(g[j]) * double(g[j]);
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) sums[n] = sum;
    }
}

// norm = sqrt of the sum of `count` sums; one block.
extern "C" __global__ void square_root_of_sum(number count, const double *sums, double *norm) {
    __shared__ double shared[MOST_THREADS];
    double sum = 0;
    FOR_COLUMNS(k, count) sum += sums[k];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) *norm = sqrt(sum);
}
