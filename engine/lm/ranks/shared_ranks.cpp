#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lm/reducer.h"

namespace tessera::lm {
namespace {

using Counter = std::atomic<std::uint32_t>;
using Clock = std::chrono::steady_clock;
static_assert(Counter::is_always_lock_free && sizeof(Counter) == 4);  // the kernel waits on it

constexpr std::uint32_t kMagic = 0x6b6e6152;
constexpr std::int32_t kMostRanks = 64;
constexpr std::int64_t kValues = 1 << 16;  ///< of a rank at a time; pages are there once touched

/// What one rank says. Sums alternate between two buffers: who has come to sum n + 1 has read all
/// of sum n, so when all have, the buffer of sum n is free.
struct alignas(64) Place {
  Counter arrived;          ///< the last sum whose values are in its buffer; wraps
  Counter sleepers;         ///< that wait for the next one
  std::uint32_t counts[2];  ///< values in each buffer
};

struct alignas(64) Head {
  std::uint32_t magic, ranks;
  Counter aborted;
};

std::int64_t bytes_of(std::int64_t ranks) {
  return static_cast<std::int64_t>(sizeof(Head)) +
         ranks * static_cast<std::int64_t>(sizeof(Place) + 2 * kValues * sizeof(float));
}

[[noreturn]] void refuse_system(const std::string& path, const char* what) {
  refuse(ErrorCode::io, path, "{}: {}", what, std::strerror(errno));
}

class Mapping final : public SharedRanks, public std::enable_shared_from_this<Mapping> {
 public:
  /// Takes the descriptor.
  Mapping(int fd, std::int64_t bytes) : fd_(fd), bytes_(bytes) {
    void* data = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      errno = error;
      refuse_system("ranks", "memory cannot be shared");
    }
    data_ = static_cast<char*>(data);
  }
  ~Mapping() override {
    ::munmap(data_, size());
    ::close(fd_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::int32_t ranks() const override { return static_cast<std::int32_t>(head().ranks); }
  std::string path() const override {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
  }

  std::unique_ptr<Reducer> reducer(std::int32_t rank,
                                   std::chrono::milliseconds deadline) const override;

  Head& head() const { return *reinterpret_cast<Head*>(data_); }
  Place& place(std::int32_t rank) const {
    return reinterpret_cast<Place*>(data_ + sizeof(Head))[rank];
  }
  float* buffer(std::int32_t rank, std::uint32_t sum) const {
    auto* buffers = reinterpret_cast<float*>(data_ + sizeof(Head) + head().ranks * sizeof(Place));
    return buffers + (2 * rank + static_cast<std::int32_t>(sum % 2)) * kValues;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(bytes_); }

  int fd_;
  std::int64_t bytes_;
  char* data_;
};

// Not private: whoever waits may be another process.
void sleep_on(const Counter& counter, std::uint32_t while_it_is, std::chrono::milliseconds time) {
  const timespec most{time.count() / 1000, time.count() % 1000 * 1000000};
  ::syscall(SYS_futex, &counter, FUTEX_WAIT, while_it_is, &most, nullptr, 0);
}
void wake(const Counter& counter) {
  ::syscall(SYS_futex, &counter, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class SharedReducer final : public Reducer {
 public:
  SharedReducer(std::shared_ptr<const Mapping> memory, std::int32_t rank,
                std::chrono::milliseconds deadline)
      : memory_(std::move(memory)),
        rank_(rank),
        ranks_(memory_->ranks()),
        deadline_(deadline),
        sum_(memory_->place(rank).arrived.load(std::memory_order_acquire)) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }

  void sum(std::span<float> values) override {
    do {
      const auto some = values.first(std::min<std::size_t>(values.size(), kValues));
      sum_some(some);
      values = values.subspan(some.size());
    } while (!values.empty());
  }

  void abort() noexcept override {
    std::uint32_t nobody = 0;
    memory_->head().aborted.compare_exchange_strong(nobody, static_cast<std::uint32_t>(rank_) + 1);
    for (std::int32_t peer = 0; peer < ranks_; ++peer) wake(memory_->place(peer).arrived);
  }

 private:
  void sum_some(std::span<float> values) {
    refuse_aborted(aborted_by());
    ++sum_;
    Place& own = memory_->place(rank_);
    own.counts[sum_ % 2] = static_cast<std::uint32_t>(values.size());
    std::copy(values.begin(), values.end(), memory_->buffer(rank_, sum_));
    // Sequentially consistent, and so is a sleeper's order: it counts itself before it looks.
    own.arrived.store(sum_, std::memory_order_seq_cst);
    if (own.sleepers.load(std::memory_order_seq_cst) > 0) wake(own.arrived);
    for (std::int32_t peer = 0; peer < ranks_; ++peer) {
      if (peer != rank_) wait_for(peer);
    }
    check_counts(values.size());
    add_up(values);
  }

  bool has_arrived(std::uint32_t arrived) const {
    return static_cast<std::int32_t>(arrived - sum_) >= 0;
  }

  void wait_for(std::int32_t peer) {
    // 2 us awake, for one that runs beside this rank. Not longer, and asleep rather than by giving
    // up the core: on busy cores a spin of 33 us doubles the time, and a yield lasts milliseconds.
    constexpr int kSpins = 60;
    Place& place = memory_->place(peer);
    for (int i = 0; i < kSpins; ++i) {
      if (has_arrived(place.arrived.load(std::memory_order_acquire))) return;
      relax();
    }
    // One that is woken by nobody, since its rank is gone, looks at the clock so often.
    constexpr std::chrono::milliseconds kGlance{20};
    const auto end = Clock::now() + deadline_;
    while (true) {
      // Looked at first: a rank that came and then gave up has come.
      const std::uint32_t who = aborted_by();
      if (has_arrived(place.arrived.load(std::memory_order_acquire))) return;
      refuse_aborted(who);
      if (Clock::now() >= end) {
        abort();
        refuse(ErrorCode::io, "ranks",
               "rank {} of {} did not come to a sum within {} ms; it has ended or stands still",
               peer, ranks_, deadline_.count());
      }
      place.sleepers.fetch_add(1, std::memory_order_seq_cst);
      const std::uint32_t arrived = place.arrived.load(std::memory_order_seq_cst);
      if (!has_arrived(arrived)) sleep_on(place.arrived, arrived, kGlance);
      place.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  /// Its number + 1; 0: nobody.
  std::uint32_t aborted_by() const {
    return memory_->head().aborted.load(std::memory_order_acquire);
  }
  void refuse_aborted(std::uint32_t who) const {
    if (who != 0) refuse(ErrorCode::io, "ranks", "rank {} of {} gave up", who - 1, ranks_);
  }

  void check_counts(std::size_t count) {
    for (std::int32_t peer = 0; peer < ranks_; ++peer) {
      const std::uint32_t other = memory_->place(peer).counts[sum_ % 2];
      if (other == count) continue;
      abort();
      refuse("ranks", "rank {} sums {} values and rank {} {}; they step different batches", rank_,
             count, peer, other);
    }
  }

  void add_up(std::span<float> values) const {
    constexpr std::size_t kAtOnce = 1024;  // stay in the first cache while ranks are added
    for (std::size_t first = 0; first < values.size(); first += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, values.size() - first);
      float* out = values.data() + first;
      std::copy_n(memory_->buffer(0, sum_) + first, count, out);
      for (std::int32_t peer = 1; peer < ranks_; ++peer) {
        const float* in = memory_->buffer(peer, sum_) + first;
        for (std::size_t i = 0; i < count; ++i) out[i] += in[i];
      }
    }
  }

  std::shared_ptr<const Mapping> memory_;
  std::int32_t rank_, ranks_;
  std::chrono::milliseconds deadline_;
  std::uint32_t sum_;
};

std::unique_ptr<Reducer> Mapping::reducer(std::int32_t rank,
                                          std::chrono::milliseconds deadline) const {
  if (rank < 0 || rank >= ranks())
    refuse(ErrorCode::out_of_range, "rank", "{} of {} ranks; they count from 0", rank, ranks());
  return std::make_unique<SharedReducer>(shared_from_this(), rank, deadline);
}

}  // namespace

std::shared_ptr<SharedRanks> SharedRanks::create(std::int32_t ranks) {
  if (ranks < 1 || ranks > kMostRanks)
    refuse(ErrorCode::out_of_range, "ranks", "{} is outside [1, {}]", ranks, kMostRanks);
  const int fd = ::memfd_create("tessera ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) refuse_system("ranks", "memory cannot be shared");
  const std::int64_t bytes = bytes_of(ranks);
  // Sealed, so that nobody takes away pages that others read.
  if (::ftruncate(fd, bytes) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ::close(fd);
    refuse_system("ranks", "memory cannot be shared");
  }
  auto mapping = std::make_shared<Mapping>(fd, bytes);
  new (&mapping->head()) Head{kMagic, static_cast<std::uint32_t>(ranks), {}};
  for (std::int32_t rank = 0; rank < ranks; ++rank) new (&mapping->place(rank)) Place{};
  return mapping;
}

std::shared_ptr<SharedRanks> SharedRanks::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) refuse_system(quote(path, 300), "the ranks' memory cannot be opened");
  struct stat about {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const bool whole = ::fstat(fd, &about) == 0 && seals >= 0 && (seals & F_SEAL_SHRINK) != 0 &&
                     about.st_size >= static_cast<std::int64_t>(sizeof(Head));
  if (!whole) {
    ::close(fd);
    refuse(quote(path, 300), "it is no memory of ranks");
  }
  auto mapping = std::make_shared<Mapping>(fd, about.st_size);
  const Head& head = mapping->head();
  if (head.magic != kMagic || head.ranks < 1 || about.st_size != bytes_of(head.ranks))
    refuse(quote(path, 300), "it is no memory of ranks of this version");
  return mapping;
}

}  // namespace tessera::lm
