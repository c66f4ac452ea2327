#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// A request as it reaches the front door. What its tokens are is said only as far as prefix caches
/// can tell: position p of two requests holds the same token where both lie in the same stream.
struct Request {
  Ticks arrival = 0;               ///< after `after` has ended, where that is set
  std::int64_t prompt_tokens = 1;  ///< at least 1
  std::int64_t output_tokens = 1;  ///< that it really generates; no policy ever sees it
  std::int64_t max_tokens = 0;     ///< its limit, which policies may see; 0: output_tokens
  std::int32_t priority = 0;       ///< lower goes first
  std::int32_t slo_class = 0;      ///< index into the classes of the SLO
  std::int32_t model = -1;         ///< that it is for, index into Traffic::models; -1: any
  /// The first `prefix_tokens` of the prompt are the first of the stream of this group; -1: none.
  std::int64_t prefix_group = -1;
  std::int64_t prefix_tokens = 0;
  /// All that follows, the output too, is of this stream (by position in the request): the turns of
  /// a session continue one. -1: its own; of a prompt that is all prefix, the same for all such, as
  /// greedy decoding answers equal prompts alike.
  std::int64_t stream = -1;
  /// Instead of the two above: hashes of prefix blocks, in Traffic::block_ids. An id stands for all
  /// tokens up to the end of its block.
  std::int64_t first_block_id = 0, num_block_ids = 0;
  /// The request whose end this one waits for (the turn before it), 0-based; -1: none.
  std::int64_t after = -1;
  /// Its client leaves so long after it came, if it is not answered by then; kNever: it waits.
  Ticks cancel_after = kNever;
};

/// Requests in order of arrival (those of later turns where their session started).
struct Traffic {
  std::vector<Request> requests;
  std::vector<std::string> models = {};  ///< that requests name; empty: they name none
  std::vector<std::int64_t> block_ids;
  std::int64_t block_id_tokens = 512;  ///< tokens that an id of `block_ids` stands for
  /// Closed loop: so many are under way at most, and a request is sent when one ends; absent: open.
  std::optional<std::int64_t> concurrency;
  /// Requests per second (every turn and child counts) as asked for, of traces as measured; absent
  /// of a closed loop and where all come at once.
  std::optional<double> rate_per_s;
  bool replayed = false;    ///< from a trace: another rate divides gaps that somebody measured
  std::string description;  ///< "10000 requests, poisson 4 req/s, 512 in, 128 out, seed 1"
  std::vector<std::string> notes;  ///< what was left out or changed, and what that does to bursts
};

}  // namespace tessera::serving
