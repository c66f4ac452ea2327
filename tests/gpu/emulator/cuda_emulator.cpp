#include "cuda_emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace cuda_emulator {

Built built;
int arch = 80;
std::uint64_t order_seed = 1;

namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

struct Copy {
  void* to;
  const void* from;
  int num_bytes;
};

/// A barrier that threads pass together: the generation counts how often.
struct Barrier {
  int arrived = 0;
  std::uint64_t generation = 0;
};

struct Fibre {
  ucontext_t context;
  std::vector<unsigned char> stack;
  dim3 index;
  int warp, lane;
  const Barrier* waits_for = nullptr;
  std::uint64_t waits_since = 0;
  bool done = false;
  int exchanges = 0;
  std::vector<Copy> uncommitted;
  std::deque<std::vector<Copy>> groups;
  bool ready() const {
    return !done && (waits_for == nullptr || waits_for->generation != waits_since);
  }
};

struct Warp {
  Barrier barrier;
  int lanes = 0;
  alignas(16) unsigned char slots[2][32][64];
};

std::vector<Fibre> fibres;
std::vector<Warp> warps;
Barrier block;
int alive;
std::vector<unsigned char> shared;
unsigned char* aligned_shared;
Fibre* running;
ucontext_t scheduler;
Entry the_entry;
void* the_arguments;

void arrive(Barrier& barrier, int expected) {
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  running->waits_for = &barrier;
  running->waits_since = barrier.generation;
  swapcontext(&running->context, &scheduler);
}

void fibre_main() {
  the_entry(the_arguments);
  running->done = true;
  Warp& warp = warps[static_cast<std::size_t>(running->warp)];
  // A thread that has left counts as arrived at every later barrier.
  --alive;
  --warp.lanes;
  for (const auto& [barrier, expected] :
       {std::pair{&block, alive}, std::pair{&warp.barrier, warp.lanes}}) {
    if (barrier->arrived == expected && expected > 0) {
      barrier->arrived = 0;
      ++barrier->generation;
    }
  }
  swapcontext(&running->context, &scheduler);
}

void start_block(std::mt19937_64& random) {
  const int count = static_cast<int>(built.block_size.x);
  alive = count;
  block = {};
  warps.assign(static_cast<std::size_t>((count + 31) / 32), Warp{});
  std::fill(shared.begin(), shared.end(), static_cast<unsigned char>(0xff));
  if (fibres.size() < static_cast<std::size_t>(count))
    fibres.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    Fibre& fibre = fibres[static_cast<std::size_t>(i)];
    fibre.stack.resize(kStackBytes);
    fibre.index = {static_cast<unsigned>(i), 0, 0};
    fibre.warp = i / 32;
    fibre.lane = i % 32;
    ++warps[static_cast<std::size_t>(fibre.warp)].lanes;
    fibre.waits_for = nullptr;
    fibre.done = false;
    fibre.exchanges = 0;
    fibre.uncommitted.clear();
    fibre.groups.clear();
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.data();
    fibre.context.uc_stack.ss_size = fibre.stack.size();
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, fibre_main, 0);
  }
  std::vector<int> order(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  std::shuffle(order.begin(), order.end(), random);
  while (alive > 0) {
    bool progress = false;
    for (const int i : order) {
      Fibre& fibre = fibres[static_cast<std::size_t>(i)];
      if (!fibre.ready()) continue;
      progress = true;
      fibre.waits_for = nullptr;
      running = &fibre;
      built.thread = fibre.index;
      swapcontext(&scheduler, &fibre.context);
    }
    if (!progress) {
      std::fprintf(stderr,
                   "block (%u, %u, %u): threads wait for each other; %d of %d are left, %d at the "
                   "block's barrier\n",
                   built.block.x, built.block.y, built.block.z, alive, count, block.arrived);
      std::abort();
    }
  }
}

}  // namespace

unsigned char* shared_bytes() { return aligned_shared; }
int lane() { return running->lane; }
void block_barrier() { arrive(block, alive); }
void warp_barrier() {
  Warp& warp = warps[static_cast<std::size_t>(running->warp)];
  arrive(warp.barrier, warp.lanes);
}

const unsigned char* warp_exchange(const void* mine, std::size_t size) {
  Warp& warp = warps[static_cast<std::size_t>(running->warp)];
  auto& slots = warp.slots[running->exchanges++ % 2];
  std::memcpy(slots[running->lane], mine, size);
  warp_barrier();
  return slots[0];
}

void copy_later(void* to, const void* from, int num_bytes) {
  running->uncommitted.push_back({to, from, num_bytes});
  if (arch < 80) {
    commit_copies();
    wait_copies(0);
  }
}

void commit_copies() {
  running->groups.push_back(std::move(running->uncommitted));
  running->uncommitted.clear();
}

void wait_copies(int pending) {
  while (running->groups.size() > static_cast<std::size_t>(pending)) {
    for (const Copy& copy : running->groups.front()) {
      std::memset(copy.to, 0, 16);
      std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.num_bytes));
    }
    running->groups.pop_front();
  }
}

void run_grid(dim3 grid, dim3 block_size, std::size_t dynamic_shared_bytes, Entry entry,
              void* arguments) {
  std::mt19937_64 random(order_seed);
  the_entry = entry;
  the_arguments = arguments;
  built.grid = grid;
  built.block_size = block_size;
  shared.assign(dynamic_shared_bytes + 128, 0xff);
  void* at = shared.data();
  std::size_t space = shared.size();
  aligned_shared = static_cast<unsigned char*>(std::align(128, dynamic_shared_bytes, at, space));
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        built.block = {x, y, z};
        start_block(random);
      }
}

}  // namespace cuda_emulator
