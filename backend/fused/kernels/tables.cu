// Rows of a table: backend/rows.py.

// out[n] = table[ids[n]]: each thread an element.
extern "C" __global__ void gather_rows(
    number count, number width, const real *table, number table_stride, const number *ids,
    real *out) {
    FOR_EACH(k, count * width) {
        number n = k / (unsigned)width, j = k % (unsigned)width;
        out[k] = table[ids[n] * table_stride + j];
    }
}

// values[n] = sum of rows[order[k]], starts[n] <= k < starts[n + 1]: a segment of equal ids per
// block. Each column is summed by one thread in the order of the positions, so the sum needs no
// atomics and comes out the same each time.
extern "C" __global__ void sum_segments(
    number segments, number count, number width, const real *rows, const number *order,
    const number *starts, real *values) {
    for (number n = blockIdx.x; n < segments; n += gridDim.x) {
        number first = starts[n], end = n + 1 < segments ? starts[n + 1] : count;
        FOR_COLUMNS(j, width) {
            real sum = 0;
            for (number k = first; k < end; k++) sum += rows[order[k] * width + j];
            values[n * width + j] = sum;
        }
    }
}
