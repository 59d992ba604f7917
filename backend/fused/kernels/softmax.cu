// Softmax over source positions (attention/attention.py) and cross-entropy (lstm/prediction.py).
// A block per row.

// a = softmax(scale e) in place, zero where the mask is true, which not all of a row is (Eq. 4.7),
// and kept = a o dropout where there is such. e is (B, Q, S), contiguous, and so are dropout and
// kept; mask has strides for its three axes, in bytes.
extern "C" __global__ void softmax_forward(
    number rows, number Q, number S, real *e, const unsigned char *mask, number mask_b,
    number mask_q, number mask_s, double scale, const real *dropout, real *kept) {
    __shared__ real shared[MOST_THREADS];
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        real *row = e + n * S;
        const unsigned char *out = mask ? mask + n / Q * mask_b + n % Q * mask_q : 0;
        real most = real(-1e30);  // below any score, and a float
        FOR_COLUMNS(j, S) if (!out || !out[j * mask_s]) most = larger(real(scale) * row[j], most);
        most = block_max(most, shared);
        real sum = 0;
        FOR_COLUMNS(j, S) {
            real power = out && out[j * mask_s] ? real(0) : exp(real(scale) * row[j] - most);
            row[j] = power;
            sum += power;
        }
        sum = block_sum(sum, shared);
        FOR_COLUMNS(j, S) {
            row[j] /= sum;
            if (dropout) kept[n * S + j] = row[j] * dropout[n * S + j];
        }
    }
}

// de = scale a o (da - sum of a o da), in place of da, of which dropout, where there is such, is
// a factor first. All (rows, S), contiguous.
extern "C" __global__ void softmax_backward(
    number rows, number S, real *da, const real *a, double scale, const real *dropout) {
    __shared__ real shared[MOST_THREADS];
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        real *d = da + n * S;
        const real *weight = a + n * S;
        real sum = 0;
        FOR_COLUMNS(j, S) {
            if (dropout) d[j] *= dropout[n * S + j];
            sum += weight[j] * d[j];
        }
        sum = block_sum(sum, shared);
        FOR_COLUMNS(j, S) d[j] = real(scale) * (d[j] - sum) * weight[j];
    }
}

// losses = -sum of q log softmax(s + b), q(y) = (1 - smoothing) 1_target + smoothing / V; s becomes
// softmax(s + b) - q. Maximum and sum of exponentials in one reading, the gradient in the second.
// nll, -log softmax(s + b)[target], may be missing, and smoothing is then 0. The host has checked
// the targets; one out of range would give a loss of NaN and touch nothing.
__device__ inline void loss_and_gradient(
    number rows, number V, real *s, number s_stride, const number *targets, real *losses,
    real *nll, real smoothing, const real *b, real *shared) {
    for (number n = blockIdx.x; n < rows; n += gridDim.x) {
        real *row = s + n * s_stride;
        number target = targets[n];
        real own = -INFINITY, own_sum = 0;  // this thread's maximum, and sum of exp(x - own)
        real logits = 0;                    // its sum of x
        FOR_COLUMNS(j, V) {
            real x = row[j];
            if (b) x += b[j];
            logits += x;
            if (x > own) {
                own_sum = own_sum * exp(own - x) + real(1);
                own = x;
            } else {
                own_sum += exp(x - own);
            }
        }
        real most = block_max(own, shared);
        real total = block_sum(own == -INFINITY ? own_sum : own_sum * exp(own - most), shared);
        if (nll) logits = block_sum(logits, shared);
        real scale = real(1) / total;
        real at_target = INFINITY - INFINITY;
        if (target >= 0 && target < V) at_target = row[target] + (b ? b[target] : real(0));
        __syncthreads();  // all have read it, now it may be overwritten
        if (threadIdx.x == 0) {
            losses[n] = log(total) - (at_target - most);
            if (nll) {
                nll[n] = losses[n];
                losses[n] += smoothing * (at_target - logits / V);
            }
        }
        FOR_COLUMNS(j, V) {
            real x = row[j];
            if (b) x += b[j];
            row[j] = exp(x - most) * scale - smoothing / V -
                     (j == target ? real(1) - smoothing : real(0));
        }
    }
}

// Without smoothing (Eqs. 2.4-2.6, 2.19-2.21).
extern "C" __global__ void cross_entropy(
    number rows, number V, real *s, number s_stride, const number *targets, real *losses,
    const real *b) {
    __shared__ real shared[MOST_THREADS];
    loss_and_gradient(rows, V, s, s_stride, targets, losses, 0, real(0), b, shared);
}

// With label smoothing (Nguyen, 3.3.3.1).
extern "C" __global__ void smoothed_cross_entropy(
    number rows, number V, real *s, number s_stride, const number *targets, real *losses,
    real *nll, double smoothing, const real *b) {
    __shared__ real shared[MOST_THREADS];
    loss_and_gradient(rows, V, s, s_stride, targets, losses, nll, real(smoothing), b, shared);
}
