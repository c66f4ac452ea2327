#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_view.h"
#include "tessera/serving/log.h"

namespace tessera::serving {

struct Served;

/// A request of a run, as far as decisions depend on it.
struct ReplayedRequest {
  std::int64_t prompt_tokens = 1, max_tokens = 1;
  std::int32_t priority = 0, slo_class = 0;
  /// Numbers of its full blocks of tokens, from the start: equal ones hold the same tokens behind
  /// the same tokens. Those behind the last are its own.
  std::vector<std::int64_t> blocks = {};
};

/// An engine that requests go to once they are read.
struct ReplayedDecoder {
  std::int64_t kv_blocks = 1, num_stages = 1;
};

/// The engine of a run and its requests: with its log, all that a simulation needs to take every
/// decision again.
struct ReplayCard {
  EngineOptions engine;
  std::int64_t kv_blocks = 1, num_stages = 1;
  double kv_bytes_per_token = 0;
  std::optional<ReplayedDecoder> decoder = {};  ///< with the engine's options
  std::vector<ReplayedRequest> requests = {};
};

/// Why a run cannot be replayed: it was of several engines that do not hand over, without its
/// steps, or nobody kept what was served; empty: it can.
std::string why_no_replay(const Served& served);
/// @throws Error{unsupported} saying so
ReplayCard replay_card(const Served& served);

/// A run, and what it is compared with.
struct Replay {
  bool identical = false;
  std::int64_t num_steps = 0, num_requests = 0;      ///< of the run
  std::optional<std::string> first_difference = {};  ///< absent: there is none
};

/// Simulates the engine with the starts and ends of its steps, arrivals, cancels, draft counts and
/// accepted drafts of the log. Decisions, blocks, preemptions and ends have to be the same.
/// @param poll called now and then; throws to end it
/// @param on_view given the engine as it was, some hundreds of times over the run
/// @throws Error{out_of_range} for a run of more tokens than fit, Error{not_found} for a scheduler
/// that is not there
Replay replay(const ReplayCard& card, const Log& log,
              MakeScheduler make_scheduler = Replica::make_scheduler_of_engine,
              std::function<void()> poll = {}, std::function<void(EngineView)> on_view = {});

/// What first differs between a run and another one of it, steps first; empty: nothing does. Of a
/// run that was cut off its steps count, and requests that had ended.
std::string first_difference(const Log& run, const Log& again);

/// A run as save_chrome_trace writes it, with its card.
struct ReplayFile {
  ReplayCard card;
  Log log;
};
/// @throws Error{invalid_argument, out_of_range} naming file and line, Error{io, not_found}
ReplayFile read_replay_file(const std::string& path);
ReplayFile replay_file_of(std::string_view text, const std::string& path);

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::Replay> {
  using R = tessera::serving::Replay;
  static constexpr auto list = std::tuple{
      field<&R::identical>({.name = "identical",
                            .doc = "Whether decisions, blocks, preemptions and ends are the same"}),
      field<&R::num_steps>({.name = "num_steps", .doc = "Of the run"}),
      field<&R::num_requests>({.name = "num_requests", .doc = "Of the run"}),
      field<&R::first_difference>(
          {.name = "first_difference", .doc = "In words; nil: there is none"})};
};
