#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/serving/micro_batches.h"

namespace tessera::serving {

enum class BatchPhase { prefill, decode };

/// Requests that pass through the pipeline together.
struct MicroBatch {
  std::int64_t first_request = 0;  ///< 0-based, of the batch
  std::int64_t size = 1;
};

/// One request of a batch whose requests are not alike.
struct BatchRequest {
  double arrival_s = 0;            ///< nothing of it is done before; negative: it has been waiting
  std::int64_t num_chunks = 1;     ///< its micro-batch takes as many as its longest request
  std::int64_t output_tokens = 1;  ///< its micro-batch goes on until its last request is done
};

/// A pipeline for one batch, described by functions so that the simulator knows neither models nor
/// planners.
struct BatchPipeline {
  std::vector<std::string> stage_names;  ///< one track per stage
  std::int64_t batch_size = 1;
  std::int64_t prefill_micro_batch_size = 1;
  std::int64_t decode_micro_batch_size = 1;
  std::int64_t num_chunks = 1;
  std::int64_t output_tokens =
      1;  ///< the first comes out of prefill; decode rounds 1 .. output_tokens - 1
  /// [batch_size] instead of the two above, where requests differ; empty: all are alike.
  std::vector<BatchRequest> requests;

  /// Seconds of one unit on a stage. `index`: chunk in prefill, round (1-based token) in decode.
  /// A unit that takes 0 s somewhere passes there without waiting, so a stage without layers costs
  /// nothing. Where requests are alike only the real size of the micro-batch counts, and each is
  /// asked for once where a table of them fits.
  std::function<double(std::size_t stage, BatchPhase phase, const MicroBatch& micro_batch,
                       std::int64_t index)>
      stage_s;
  /// Seconds to move one unit's activations from `stage` to `stage + 1`; 0 for none.
  std::function<double(std::size_t stage, BatchPhase phase, const MicroBatch& micro_batch,
                       std::int64_t index)>
      link_s;
  /// What of a unit's time on the first stage is the host's; none where empty. Only summed up.
  std::function<double(BatchPhase phase, const MicroBatch& micro_batch, std::int64_t index)> host_s;
  /// Seconds to return sampled tokens from the last stage to the first, before every decode round;
  /// 0 where negligible.
  std::function<double(std::int64_t micro_batch_size)> return_s;
};

/// One busy interval, for the trace.
struct BatchSpan {
  std::size_t track = 0;  ///< stage s: track 2 s; the link after it: 2 s + 1
  BatchPhase phase = BatchPhase::prefill;
  std::int64_t micro_batch = 0;  ///< 0-based within its phase
  std::int64_t index = 0;        ///< chunk or round
  double start_s = 0, duration_s = 0;
  std::int64_t num_requests = 0;  ///< 0: as the pipeline cuts its batch
};

/// When a request was answered.
struct RequestTimes {
  double first_token_s = 0, last_token_s = 0;
};

struct StageUse {
  double busy_s = 0;
  double idle_ratio = 0;  ///< 1 - busy / total
};

struct BatchRun {
  double total_s = 0;    ///< last token of the last request
  double prefill_s = 0;  ///< last unit of prefill leaves the last stage
  double decode_s = 0;   ///< total_s - prefill_s
  double ttft_s = 0;     ///< mean over requests, from their arrival
  double ttft_max_s = 0;
  double tpot_s = 0;  ///< mean over requests of (e2e - ttft) / (output_tokens - 1), those of one
                      ///< token left out
  double decode_round_s = 0;  ///< mean over decode micro-batches of the period between rounds, from
                              ///< the first to the last; from prefill where there is only one round
  double throughput_tok_s = 0;  ///< output tokens of all requests / total_s
  double host_s = 0;            ///< of the first stage's busy time: not its kernels but the host
  std::vector<StageUse> stages;
  std::vector<RequestTimes> requests;  ///< [batch_size] where requests differ
  std::vector<BatchSpan> spans;        ///< in order of start; empty unless asked for
};

/// A batch through its pipeline by the scheduler micro_batches, in whole ticks. Stages and links
/// serve one unit at a time, in order of arrival, prefill first on ties; transfers overlap
/// computation. A prefill micro-batch starts when every request in it has arrived, a decode
/// micro-batch when the prefill of every request in it is done; round r of a micro-batch when its
/// round r - 1 is. Deterministic.
/// @throws Error{out_of_range} when the number of passes over stages and links would be above
/// `max_events`, with the count, or the run beyond kLongestRun_s; Error{internal} when a function
/// returns NaN, infinity or a negative time.
BatchRun simulate_batch(const BatchPipeline& pipeline, bool record_spans,
                        std::int64_t max_events = 200'000'000);

}  // namespace tessera::serving
