// JSON reading and event simulation.
#include <benchmark/benchmark.h>

#include <string>

#include "tessera/core/json.h"
#include "tessera/serving/batch_run.h"

namespace tessera {
namespace {

/// About 4 MB of what our files hold: objects with short keys, strings, and rows of doubles.
std::string document(std::size_t rows) {
  std::string text = "{\"rows\": [";
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string n = std::to_string(i);
    text += std::string(i == 0 ? "" : ",") + "{\"name\": \"layer." + n + "\", \"index\": " + n +
            ", \"omega\": [0.05632725" + n + ", 0.01133" + n + ", 3.792e-05, 4.8e-10]}";
  }
  return text + "]}";
}

void BM_ReadJson(benchmark::State& state) {
  constexpr std::size_t kRows = 40000;
  const std::string text = document(kRows);
  for (auto _ : state) {
    const Json json = parse_json(text, "bench");
    if (json.at("rows").size() != kRows || json["rows"][7]["omega"][3] != 4.8e-10) {
      state.SkipWithError("the document was read wrongly");
      break;
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}
BENCHMARK(BM_ReadJson)->Unit(benchmark::kMillisecond);

/// Four stages of 1 s each, 64 micro-batches of one request, 101 tokens: the pipeline is always
/// full, so the last token leaves at 64 (prefill) + 100 * 64 (rounds) + 3 (drain).
serving::BatchPipeline full_pipeline() {
  serving::BatchPipeline pipeline;
  pipeline.stage_names = {"a", "b", "c", "d"};
  pipeline.batch_size = 64;
  pipeline.output_tokens = 101;
  pipeline.stage_s = [](std::size_t, serving::BatchPhase, const serving::MicroBatch&,
                        std::int64_t) { return 1.0; };
  pipeline.link_s = [](std::size_t, serving::BatchPhase, const serving::MicroBatch&, std::int64_t) {
    return 0.0;
  };
  pipeline.return_s = [](std::int64_t) { return 0.0; };
  return pipeline;
}

void BM_Simulate(benchmark::State& state) {
  const serving::BatchPipeline pipeline = full_pipeline();
  for (auto _ : state) {
    const serving::BatchRun run = serving::simulate_batch(pipeline, false);
    if (run.total_s != 64.0 + 100 * 64 + 3) {
      state.SkipWithError("the simulation ends at the wrong time");
      break;
    }
  }
  // One event is one unit through one stage.
  state.SetItemsProcessed(state.iterations() * 64 * 101 * 4);
}
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera
