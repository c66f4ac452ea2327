// Samples of one measurement: which they are, and whether they agree.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "tessera/core/error.h"
#include "tessera/cost/read_samples.h"

namespace tessera::cost {
namespace {

// Repeats of one measurement in the tables that we know differ by up to 27 %.
constexpr double kContradiction = 2;

auto key_of(const Sample& s) {
  const OpQuery& q = s.query;
  return std::tie(q.op, q.phase, q.bitwidth, q.m, q.n, q.k, q.batch_size, q.tokens,
                  q.context_tokens, q.num_heads, q.num_kv_heads, q.head_dim, q.window,
                  q.hidden_size, q.inner_size, q.num_experts, q.top_k, q.routing, q.bytes,
                  q.num_devices, q.dtype, q.kv_dtype, q.model, q.name, s.device, s.kernel_set,
                  s.source);
}

template <class T>
std::size_t hash_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::size_t>(value);
  } else {
    return std::hash<T>{}(value);
  }
}

std::size_t hash_key(const Sample& sample) {
  std::size_t hash = 0;
  std::apply(
      [&](const auto&... field) {
        ((hash ^= hash_of(field) + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2)), ...);
      },
      key_of(sample));
  return hash;
}

}  // namespace

// By hash first: comparing the keys of a million rows would take as long as reading them.
std::vector<std::size_t> first_of_repeats(const std::vector<Sample>& samples,
                                          const std::function<std::string(std::size_t)>& place) {
  std::vector<std::size_t> hashes;
  for (const Sample& sample : samples) hashes.push_back(hash_key(sample));
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return hashes[a] != hashes[b] ? hashes[a] < hashes[b] : a < b;
  });
  std::vector<std::size_t> first_of(samples.size());
  std::iota(first_of.begin(), first_of.end(), std::size_t{0});
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t first = order[i];
    if (first_of[first] != first) continue;
    for (std::size_t j = i + 1; j < order.size() && hashes[order[j]] == hashes[first]; ++j) {
      const std::size_t other = order[j];
      if (key_of(samples[other]) != key_of(samples[first])) continue;
      const auto [low, high] = std::minmax(samples[first].latency_s, samples[other].latency_s);
      if (high > kContradiction * low) {
        refuse(place(other),
               "{} s for {}, {} says {} s; repeats may differ by a factor of "
               "{}, so one of them is wrong",
               samples[other].latency_s, describe(samples[first].query), place(first),
               samples[first].latency_s, kContradiction);
      }
      first_of[other] = first;
    }
  }
  return first_of;
}

}  // namespace tessera::cost
