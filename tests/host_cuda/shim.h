// Enough of CUDA C for g++ to compile the fused kernels: blocks run one after another. The threads of
// a block are coroutines: each runs to __syncthreads() and waits there for all others. Which runs
// first changes from one meeting to the next and from block to block, so that a thread that does not
// wait reads what another has not written yet, or has written over.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __shared__ static

using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

struct Index {
    unsigned x, y, z;
};

static Index blockIdx, threadIdx, gridDim, blockDim;

struct Coroutine {
    ucontext_t here;
    std::vector<char> stack = std::vector<char>(1 << 16);
    bool ended;
};
static ucontext_t scheduler;
static Coroutine *running = nullptr;
static std::function<void()> work;

static inline void __syncthreads() {
    if (running) swapcontext(&running->here, &scheduler);
}

static void enter() {
    work();
    running->ended = true;
}

// Every thread of the block up to its next meeting, or its end; how many have ended.
static unsigned advance(std::vector<Coroutine> &team, bool ascending) {
    unsigned ended = 0, threads = team.size();
    for (unsigned i = 0; i < threads; i++) {
        threadIdx.x = ascending ? i : threads - 1 - i;
        running = &team[threadIdx.x];
        swapcontext(&scheduler, &running->here);
        ended += running->ended;
    }
    if (ended && ended != threads) {
        std::fputs("__syncthreads: some threads of the block never get there\n", stderr);
        std::abort();
    }
    return ended;
}

template <typename Kernel> static void run(unsigned blocks, unsigned threads, Kernel kernel) {
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    threadIdx = {0, 0, 0};
    if (threads == 1) {
        for (unsigned b = 0; b < blocks; b++) {
            blockIdx = {b, 0, 0};
            kernel();
        }
        return;
    }
    work = kernel;
    std::vector<Coroutine> team(threads);
    for (unsigned b = 0; b < blocks; b++) {
        blockIdx = {b, 0, 0};
        for (Coroutine &one : team) {
            getcontext(&one.here);
            one.here.uc_stack.ss_sp = one.stack.data();
            one.here.uc_stack.ss_size = one.stack.size();
            one.here.uc_link = &scheduler;
            one.ended = false;
            makecontext(&one.here, enter, 0);
        }
        for (bool ascending = b % 2; !advance(team, ascending);) ascending = !ascending;
    }
    running = nullptr;
}
