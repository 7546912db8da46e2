// Just enough of CUDA for a kernel to run on a CPU, a thread of the system for each of its threads.
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define ON_DEVICE inline
#define __global__
#define __launch_bounds__(count)

struct Index { unsigned x; };
struct Warp { std::barrier<> meeting{32}; float slots[32]; };
static thread_local Index threadIdx, blockIdx;
static thread_local Warp* warp_of_mine;
static thread_local std::barrier<>* block_of_mine;
static Index gridDim;

inline void __syncthreads() { block_of_mine->arrive_and_wait(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
inline float __shfl_xor_sync(unsigned, float v, int other) {
  const int lane = threadIdx.x % 32;
  warp_of_mine->slots[lane] = v;
  warp_of_mine->meeting.arrive_and_wait();
  const float found = warp_of_mine->slots[lane ^ other];
  warp_of_mine->meeting.arrive_and_wait();
  return found;
}

inline unsigned seen(const unsigned* p) {
  std::this_thread::yield();
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
inline void fetch(const void* p) { (void)*(volatile const char*)p; }
template <int COUNT> void past_l1(const float* p, float (&v)[COUNT]) {
  if (reinterpret_cast<std::uintptr_t>(p) % sizeof(v)) std::abort();  // as the device would
  std::memcpy(v, p, sizeof(v));
}
inline float bits_to_float(unsigned bits) { float v; std::memcpy(&v, &bits, 4); return v; }
inline unsigned float_to_bits(float v) { unsigned bits; std::memcpy(&bits, &v, 4); return bits; }
inline float wide(unsigned short bits) { _Float16 v; std::memcpy(&v, &bits, 2); return (float)v; }
inline unsigned short narrow(float v) { const _Float16 half = (_Float16)v; unsigned short bits; std::memcpy(&bits, &half, 2); return bits; }

template <class Kernel, class Argument> void launch(Kernel kernel, const Argument& argument, unsigned blocks, unsigned threads) {
  gridDim.x = blocks;
  std::vector<std::unique_ptr<std::barrier<>>> meetings;
  std::vector<std::unique_ptr<Warp>> warps;
  for (unsigned b = 0; b < blocks; b++) meetings.push_back(std::make_unique<std::barrier<>>(threads));
  for (unsigned w = 0; w < blocks * threads / 32; w++) warps.push_back(std::make_unique<Warp>());
  std::vector<std::thread> all;
  for (unsigned t = 0; t < blocks * threads; t++)
    all.emplace_back([&, t] {
      threadIdx.x = t % threads;
      blockIdx.x = t / threads;
      block_of_mine = meetings[blockIdx.x].get();
      warp_of_mine = warps[t / 32].get();
      kernel(argument);
    });
  for (auto& one : all) one.join();
}
