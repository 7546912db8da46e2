// Encryption of the data of one call. `pike_await_key` waits for the key on the device, `pike_decrypt`
// turns an encrypted input into the real one, and `pike_commit` delivers an output and binds the child
// to its bytes. The judge compiles this file (`judge.calls.nvrtc`), and both sides load it
// (`child.memory.cipher`). Tests compare it with the same arithmetic in their `HostCipher`.

typedef unsigned int u32;
typedef unsigned long long u64;

#define ROUNDS 3
#define LANES 128
#define DOMAIN_DECRYPT 0x70696b31u
#define DOMAIN_LANE 0x70696b32u
#define DOMAIN_TOP 0x70696b33u
#define MOST_NANOSECONDS 3600000000000ull  // a paused judge may go on; a dead one took this child along

struct State { u32 w[8]; };
struct Digest { u32 w[4]; };
struct Segment { const unsigned char* from; unsigned char* to; u64 bytes; };
struct Order {
    Segment at[8];
    u64 units;
    u64 ticket;
    u32* scratch;            // the key, arrivals, from word 8 the chained digest, from word 12 one digest a block
    volatile u64* page;     // where the digest goes, and behind it the ticket
    u32 segments;
    u32 first;
};

__device__ __forceinline__ u32 turn(u32 x, int by) { return __funnelshift_l(x, x, by); }

__device__ __forceinline__ void quarter(u32& a, u32& b, u32& c, u32& d) {
    a += b; d = turn(d ^ a, 16);
    c += d; b = turn(b ^ c, 12);
    a += b; d = turn(d ^ a, 8);
    c += d; b = turn(b ^ c, 7);
}

__device__ __forceinline__ void permute(State& s) {
#pragma unroll
    for (u32 r = 0; r < ROUNDS; ++r) {
        s.w[0] += 0x9e3779b9u * (r + 1);
        quarter(s.w[0], s.w[2], s.w[4], s.w[6]);
        quarter(s.w[1], s.w[3], s.w[5], s.w[7]);
        quarter(s.w[0], s.w[3], s.w[4], s.w[7]);
        quarter(s.w[1], s.w[2], s.w[5], s.w[6]);
    }
}

__device__ __forceinline__ void absorb(State& s, uint4 unit) {
    s.w[0] ^= unit.x; s.w[1] ^= unit.y; s.w[2] ^= unit.z; s.w[3] ^= unit.w;
    permute(s);
}

__device__ __forceinline__ Digest joined(const Digest& left, const Digest& right) {
    State s;
    for (int i = 0; i < 4; ++i) { s.w[i] = left.w[i]; s.w[4 + i] = right.w[i]; }
    permute(s);
    Digest found;
    for (int i = 0; i < 4; ++i) found.w[i] = s.w[i] ^ left.w[i];
    return found;
}

__device__ __forceinline__ State opened(const u32* key, u32 lane, u64 size, u32 domain) {
    State s;
    for (int i = 0; i < 4; ++i) s.w[i] = key[i];
    s.w[4] = lane; s.w[5] = (u32)size; s.w[6] = (u32)(size >> 32); s.w[7] = domain;
    return s;
}

// One digest of a block's lanes; valid in lane 0.
__device__ __forceinline__ Digest tree(Digest own, Digest* shared) {
    shared[threadIdx.x] = own;
    for (u32 half = LANES / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = joined(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    return shared[0];
}

__device__ __forceinline__ uint4 deliver(const Order& order, u64 unit) {
    u32 which = 0;
    while (unit >= (order.at[which].bytes + 15) / 16) unit -= (order.at[which++].bytes + 15) / 16;
    const Segment& at = order.at[which];
    u64 offset = unit * 16;
    if (offset + 16 <= at.bytes) {
        uint4 value = *(const uint4*)(at.from + offset);
        if (at.from != at.to) *(uint4*)(at.to + offset) = value;
        return value;
    }
    uint4 value = make_uint4(0, 0, 0, 0);
    for (u64 i = offset; i < at.bytes; ++i) {
        unsigned char byte = at.from[i];
        ((unsigned char*)&value)[i - offset] = byte;
        if (at.from != at.to) at.to[i] = byte;
    }
    return value;
}

__device__ __forceinline__ u64 now() {
    u64 ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

// One thread reads the page in host memory, so no launch lies between the key and the input.
extern "C" __global__ void pike_await_key(volatile u64* go, u64 ticket, u64* key) {
    u64 until = now() + MOST_NANOSECONDS;
    while (*go != ticket && now() < until) {}
    __threadfence_system();
    key[0] = go[1];
    key[1] = go[2];
}

extern "C" __global__ void pike_decrypt(const uint4* encrypted, uint4* real, u64 units, const u32* key) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 unit = (u64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += step) {
        uint4 low = encrypted[2 * unit], high = encrypted[2 * unit + 1];
        State s = opened(key, 0, unit, DOMAIN_DECRYPT);
        State before = s;
        permute(s);
        for (int i = 0; i < 8; ++i) s.w[i] += before.w[i];
        low.x ^= s.w[0]; low.y ^= s.w[1]; low.z ^= s.w[2]; low.w ^= s.w[3];
        high.x ^= s.w[4]; high.y ^= s.w[5]; high.z ^= s.w[6]; high.w ^= s.w[7];
        real[2 * unit] = low; real[2 * unit + 1] = high;
    }
}

extern "C" __global__ void __launch_bounds__(LANES) pike_commit(const __grid_constant__ Order order) {
    __shared__ Digest shared[LANES];
    __shared__ bool last;
    u32 lane = blockIdx.x * LANES + threadIdx.x;
    u32 lanes = gridDim.x * LANES;
    State s = opened(order.scratch, lane, order.units, DOMAIN_LANE);
    for (u64 unit = lane; unit < order.units; unit += lanes) absorb(s, deliver(order, unit));
    Digest own = {{s.w[0], s.w[1], s.w[2], s.w[3]}};
    Digest found = tree(own, shared);
    Digest* digests = (Digest*)(order.scratch + 12);
    if (threadIdx.x == 0) {
        digests[blockIdx.x] = found;
        __threadfence_system();
        last = atomicAdd(order.scratch + 4, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    if (gridDim.x > 1) {
        __threadfence();
        State top = opened(order.scratch, threadIdx.x, gridDim.x, DOMAIN_TOP);
        for (u32 block = threadIdx.x; block < gridDim.x; block += LANES) {
            const volatile u32* w = digests[block].w;
            absorb(top, make_uint4(w[0], w[1], w[2], w[3]));
        }
        Digest part = {{top.w[0], top.w[1], top.w[2], top.w[3]}};
        found = tree(part, shared);
    }
    if (threadIdx.x) return;
    Digest* chain = (Digest*)(order.scratch + 8);
    Digest before = {{0, 0, 0, 0}};
    if (!order.first) before = *chain;
    found = joined(found, before);
    *chain = found;
    order.scratch[4] = 0;
    if (!order.ticket) return;
    order.page[0] = (u64)found.w[1] << 32 | found.w[0];
    order.page[1] = (u64)found.w[3] << 32 | found.w[2];
    __threadfence_system();
    order.page[2] = order.ticket;
}
