#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/serving/engine_core.h"

/// An engine as a page shows it, the same of a server and of a simulation; of engines that hand
/// requests over all of them, whose blocks are numbered one engine after the other.
namespace tessera::serving {

struct ViewedRequest {
  std::int64_t request = 0;
  SequenceState state = SequenceState::waiting;
  std::int64_t prompt_tokens = 0, computed_tokens = 0, output_tokens = 0;
  /// Runs of neighbours, in the order of its tokens: the first block and their number, over and
  /// over. Empty where blocks have no names.
  std::vector<std::int64_t> blocks = {};
};

struct ViewedStep {
  std::int64_t step = 0;
  double start_s = 0, duration_s = 0;
  std::int64_t prompt_tokens = 0, decode_tokens = 0, requests = 0, preempted = 0;
};

/// The engine at one moment. Counts are from its start.
struct EngineView {
  double time_s = 0;
  std::int64_t num_waiting = 0, num_running = 0;
  std::int64_t kv_blocks = 0, used_blocks = 0, block_size = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0, steps_so_far = 0;
  std::int64_t preemptions = 0, prefix_queries = 0, prefix_hits = 0, drafted = 0, accepted = 0;
  std::vector<ViewedRequest> requests = {};  ///< running ones first; not all where there are many
  std::vector<ViewedStep> steps = {};  ///< since the view before, not all where there are many
};

/// Watches an engine.
class EngineViewer {
 public:
  /// A step is done, and its results are not taken yet: who was computed still has its blocks.
  void step(const Work& work, const StepTimes& times);
  /// Nobody looks for a while: what was noted is dropped.
  void forget() { steps_.clear(); }
  EngineView take(std::span<const EngineCore* const> engines, Ticks now);

 private:
  std::vector<ViewedStep> steps_;
};

/// In one line.
std::string json_line(const EngineView& view);

}  // namespace tessera::serving

namespace tessera {

template <>
inline constexpr auto kEnumNames<serving::SequenceState> =
    enum_names<serving::SequenceState>({{serving::SequenceState::waiting, "waiting"},
                                        {serving::SequenceState::running, "running"},
                                        {serving::SequenceState::swapped, "swapped"},
                                        {serving::SequenceState::held, "held"},
                                        {serving::SequenceState::loading, "loading"}});

template <>
struct Fields<serving::ViewedRequest> {
  using R = serving::ViewedRequest;
  static constexpr auto list = std::tuple{
      field<&R::request>({.name = "request", .doc = "Its number"}),
      field<&R::state>({.name = "state", .doc = "waiting, running, swapped, held or loading"}),
      field<&R::prompt_tokens>({.name = "prompt_tokens", .doc = "Of its prompt"}),
      field<&R::computed_tokens>({.name = "computed_tokens", .doc = "In the KV cache"}),
      field<&R::output_tokens>({.name = "output_tokens", .doc = "Generated so far"}),
      field<&R::blocks>({.name = "blocks", .doc = "First block and number of each run of them"})};
};

template <>
struct Fields<serving::ViewedStep> {
  using S = serving::ViewedStep;
  static constexpr auto list = std::tuple{
      field<&S::step>({.name = "step", .doc = "Its number"}),
      field<&S::start_s>({.name = "start_s", .doc = "From the start of the engine", .unit = "s"}),
      field<&S::duration_s>({.name = "duration_s", .doc = "Of the step", .unit = "s"}),
      field<&S::prompt_tokens>({.name = "prompt_tokens", .doc = "Of prompts, computed in it"}),
      field<&S::decode_tokens>({.name = "decode_tokens", .doc = "Of answers, drafts included"}),
      field<&S::requests>({.name = "requests", .doc = "In it"}),
      field<&S::preempted>({.name = "preempted", .doc = "Requests that lost their seats"})};
};

template <>
struct Fields<serving::EngineView> {
  using V = serving::EngineView;
  static constexpr auto list = std::tuple{
      field<&V::time_s>({.name = "time_s", .doc = "From the start of the engine", .unit = "s"}),
      field<&V::num_waiting>({.name = "num_waiting", .doc = "Requests"}),
      field<&V::num_running>({.name = "num_running", .doc = "Requests"}),
      field<&V::kv_blocks>({.name = "kv_blocks", .doc = "Of the KV cache"}),
      field<&V::used_blocks>({.name = "used_blocks", .doc = "Held by requests"}),
      field<&V::block_size>({.name = "block_size", .doc = "Of a block", .unit = "tokens"}),
      field<&V::prompt_tokens>({.name = "prompt_tokens", .doc = "Computed"}),
      field<&V::output_tokens>({.name = "output_tokens", .doc = "Generated"}),
      field<&V::steps_so_far>({.name = "num_steps", .doc = "Taken"}),
      field<&V::preemptions>({.name = "preemptions", .doc = "Requests that lost their seats"}),
      field<&V::prefix_queries>({.name = "prefix_queries", .doc = "Prompt tokens looked up"}),
      field<&V::prefix_hits>({.name = "prefix_hits", .doc = "Of them, found"}),
      field<&V::drafted>({.name = "drafted", .doc = "Tokens that were guessed"}),
      field<&V::accepted>({.name = "accepted", .doc = "Of them, right"}),
      field<&V::requests>({.name = "requests", .doc = "That are here"}),
      field<&V::steps>({.name = "steps", .doc = "Since the view before"})};
};

}  // namespace tessera
