// vLLM's own V1 scheduler, logged step by step, against ours.

#include <gtest/gtest.h>

#include <filesystem>

#include "serving_driver.h"
#include "tessera/core/json.h"

namespace tessera::serving::vllm_oracle_test {
namespace {

using driven::DrivenRequest;
using driven::Driver;

std::string text_of(const StepRecord& step) {
  std::string text = fmt::format("step {}:", step.step);
  for (const auto& [request, tokens] : step.scheduled)
    text += fmt::format(" {}+{}", request, tokens);
  text += fmt::format("; preempted {}; finished {}; {} free", fmt::join(step.preempted, " "),
                      fmt::join(step.finished, " "), step.free_blocks);
  return text;
}

StepRecord logged_step(const Json& entry) {
  StepRecord step;
  step.step = entry["step"];
  for (const Json& pair : entry["scheduled"]) step.scheduled.push_back({pair[0], pair[1]});
  step.preempted = entry["preempted"].get<std::vector<std::int64_t>>();
  step.finished = entry["finished"].get<std::vector<std::int64_t>>();
  step.free_blocks = entry["free_blocks"];
  return step;
}

Driver driver_of(const Json& c) {
  EngineOptions options;
  options.max_num_seqs = c["max_num_seqs"];
  options.max_num_batched_tokens = c["max_num_batched_tokens"];
  options.block_size = c["block_size"];
  options.enable_prefix_caching = c["enable_prefix_caching"];
  options.long_prefill_token_threshold = c["long_prefill_token_threshold"];
  options.max_model_len = 4096;  // as the script that wrote the log has it
  BlockManager::Options kv;
  kv.num_blocks = c["kv_blocks"];
  kv.block_size = c["block_size"];
  kv.prefix_caching = c["enable_prefix_caching"];
  std::vector<DrivenRequest> requests;
  for (const Json& r : c["requests"]) {
    DrivenRequest request;
    request.arrival = r["arrival"];
    request.prompt_tokens = r["prompt_tokens"];
    request.output_tokens = r["output_tokens"];
    request.prefix_group = r["prefix_group"];
    request.prefix_tokens = r["prefix_tokens"];
    requests.push_back(request);
  }
  return Driver(make_scheduler(options, kv), std::move(requests));
}

TEST(VllmOracle, EveryStepIsTheLoggedOne) {
  const std::string path = TESSERA_SOURCE_DIR "/../shared/measured/serving/vllm_v1_steps.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no " << path;
  const Json log = read_json_file(path);
  ASSERT_EQ(log["runs"].size(), 24u);
  std::size_t num_steps = 0;
  for (std::size_t run = 0; run < log["runs"].size(); ++run) {
    SCOPED_TRACE(fmt::format("run {}", run));
    Driver driver = driver_of(log["runs"][run]["case"]);
    for (const Json& entry : log["runs"][run]["log"]) {
      const std::string wanted = text_of(logged_step(entry));
      StepRecord step;
      do {  // empty steps are not logged
        ASSERT_FALSE(driver.done()) << wanted;
        step = driver.advance();
      } while (step.scheduled.empty() && step.preempted.empty() && step.finished.empty());
      ASSERT_EQ(text_of(step), wanted);
      ++num_steps;
    }
    EXPECT_TRUE(driver.done());
  }
  EXPECT_EQ(num_steps, 32174u);  // all that the file has
}

}  // namespace
}  // namespace tessera::serving::vllm_oracle_test
