// What the kernels of all sources share. `real` is float or double, defined on the compiler's
// command line. Matrices are (rows, columns) with their columns side by side; a stride counts
// elements from one row to the next, so that column blocks of one buffer serve as they are. A
// pointer that may be missing is compared with 0. No kernel knows the size of its grid or of its
// blocks beforehand.

typedef long long number;

// Each thread takes every so many-th of n elements. n stays below 2^31, and so does i.
#define FOR_EACH(i, n)                                                                          \
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < (unsigned)(n);                  \
         i += gridDim.x * blockDim.x)

// Each thread of a block takes every so many-th of n columns.
#define FOR_COLUMNS(j, n) for (number j = threadIdx.x; j < (n); j += blockDim.x)

#define MOST_THREADS 256

#ifndef INFINITY  // NVRTC has no <math.h>
#define INFINITY __int_as_float(0x7f800000)
#endif

__device__ inline real sigmoid(real x) { return real(0.5) * tanh(real(0.5) * x) + real(0.5); }

// The sum over a block's threads, given to all of them; the order is fixed by the block's size.
template <typename T> __device__ inline T block_sum(T value, T *shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned width = blockDim.x; width > 1;) {
        unsigned half = (width + 1) / 2;
        if (threadIdx.x + half < width) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
        width = half;
    }
    T total = shared[0];
    __syncthreads();
    return total;
}

// The maximum over a block's threads, given to all of them. NaN wins, as in NumPy.
__device__ inline real larger(real a, real b) { return (a > b || a != a) ? a : b; }

__device__ inline real block_max(real value, real *shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned width = blockDim.x; width > 1;) {
        unsigned half = (width + 1) / 2;
        if (threadIdx.x + half < width)
            shared[threadIdx.x] = larger(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
        width = half;
    }
    real most = shared[0];
    __syncthreads();
    return most;
}
