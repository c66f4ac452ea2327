#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// Where a stage stands in the pipeline: embeddings, the LM head and activations depend on it.
enum class StagePlace : std::uint8_t {
  middle,
  first,
  last,
  only,  ///< first and last at once: a pipeline of one stage
};

inline constexpr std::array kStagePlaces = {StagePlace::middle, StagePlace::first, StagePlace::last,
                                            StagePlace::only};
inline constexpr std::size_t kNumStagePlaces = kStagePlaces.size();

/// Of tables by place.
constexpr std::size_t index_of(StagePlace place) { return static_cast<std::size_t>(place); }

constexpr bool is_first(StagePlace place) {
  return place == StagePlace::first || place == StagePlace::only;
}
constexpr bool is_last(StagePlace place) {
  return place == StagePlace::last || place == StagePlace::only;
}

constexpr StagePlace stage_place(bool first, bool last) {
  if (first) return last ? StagePlace::only : StagePlace::first;
  return last ? StagePlace::last : StagePlace::middle;
}
/// Of one of `num_stages` positions, counted from 0.
constexpr StagePlace place_at(std::size_t position, std::size_t num_stages) {
  return stage_place(position == 0, position + 1 == num_stages);
}

/// One value for every place.
template <class T>
struct ByPlace {
  std::array<T, kNumStagePlaces> values{};

  T& operator[](StagePlace place) { return values[index_of(place)]; }
  const T& operator[](StagePlace place) const { return values[index_of(place)]; }
  auto begin() { return values.begin(); }
  auto end() { return values.end(); }
  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
};

}  // namespace tessera
