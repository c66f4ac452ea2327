// The step logs of tests/reference/scheduler, whose README explains their packing, against ours.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "serving_driver.h"
#include "tessera/core/json.h"

namespace tessera::serving::vllm_fixture_test {
namespace {

using driven::DrivenRequest;
using driven::Driver;

/// Why a run cannot be repeated: what an engine of ours has no option for, or does otherwise on
/// purpose; or nothing.
std::string why_not(const Json& run) {
  const Json& c = run["case"];
  // vLLM gives it a step, preempts it for want of blocks for its drafts, and so on to its end.
  if (run["name"] == "spec_eagle/2") return "a request whose drafts never fit, which ours refuses";
  // vLLM computes it a second time before the first one's token has come.
  if (run["name"] == "pp/7") return "a request preempted under way, which waits for its token here";
  if (c.value("async_scheduling", false) && c.value("pipeline_parallel_size", 1) > 1) {
    return "async_scheduling of a pipeline, which ours refuses";
  }
  if (c.value("kv_connector", false)) return "kv_connector: its hand-over is one of steps";
  if (c.value("watermark", 0.0) > 0) return "watermark in V1";
  if (!c.value("scheduler_reserve_full_isl", true)) return "scheduler_reserve_full_isl = false";
  return "";
}

struct LoggedRun {
  Json json;
  std::vector<DrivenRequest> requests;
  std::vector<std::vector<std::int64_t>> accept_patterns, draft_patterns;

  static std::vector<std::int64_t> pattern_of(const std::map<std::string, Json>& values,
                                              const std::string& name) {
    const auto it = values.find(name);
    if (it == values.end() || it->second.is_null()) return {};
    return it->second.get<std::vector<std::int64_t>>();
  }

  explicit LoggedRun(const Json& run) : json(run) {
    const Json& c = json["case"];
    for (const Json& row : c["requests"]) {
      DrivenRequest request;
      std::map<std::string, Json> values;
      for (std::size_t i = 0; i < row.size(); ++i) values[c["request_fields"][i]] = row[i];
      request.arrival = values["arrival"];
      request.prompt_tokens = values["prompt_tokens"];
      request.output_tokens = values["output_tokens"];
      request.prefix_group = values["prefix_group"];
      request.prefix_tokens = values["prefix_tokens"];
      if (values.count("priority") > 0) request.priority = values["priority"];
      // Outputs are found nowhere else, but for the runs `first`, where they are all one token.
      const std::string name = json["name"];
      if (name.rfind("first/", 0) != 0) request.stream = std::ssize(requests);
      // vLLM ends a request at max_model_len by itself; traffic says how long it gets.
      const std::int64_t room = c.value("max_model_len", 4096) - request.prompt_tokens;
      request.output_tokens = std::min(request.output_tokens, room);
      if (values.count("abort_step") > 0 && !values["abort_step"].is_null()) {
        request.cancelled = values["abort_step"];
      }
      requests.push_back(request);
      draft_patterns.push_back(pattern_of(values, "draft_pattern"));
      accept_patterns.push_back(pattern_of(values, "accept_pattern"));
    }
  }

  Driver driver() const {
    const Json& c = json["case"];
    EngineOptions options;
    options.max_num_seqs = c["max_num_seqs"];
    options.max_num_batched_tokens = c["max_num_batched_tokens"];
    options.block_size = c["block_size"];
    options.enable_prefix_caching = c["enable_prefix_caching"];
    options.enable_chunked_prefill = c.value("enable_chunked_prefill", true);
    options.long_prefill_token_threshold = c["long_prefill_token_threshold"];
    options.max_model_len = c.value("max_model_len", 4096);
    options.async_scheduling = c.value("async_scheduling", false);
    options.policy =
        c.value("policy", "fcfs") == "priority" ? QueuePolicy::priority : QueuePolicy::fcfs;
    if (const std::int64_t drafts = c.value("num_spec_tokens", 0); drafts > 0) {
      Speculation speculation;
      speculation.method = *named<DraftMethod>(c["spec_method"].get<std::string>());
      speculation.num_tokens = drafts;
      speculation.acceptance.assign(static_cast<std::size_t>(drafts), 0.5);
      options.speculative = speculation;
    }
    BlockManager::Options kv;
    kv.num_blocks = c["kv_blocks"];
    kv.block_size = options.block_size;
    kv.prefix_caching = options.enable_prefix_caching;
    return Driver(make_scheduler(options, kv), requests);
  }
};

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Pairs pairs_of(const Json& flat) {
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) pairs.emplace_back(flat[i], flat[i + 1]);
  return pairs;
}

Pairs pairs_of(const StepRecord& step) {
  Pairs pairs;
  for (const auto& [request, tokens] : step.scheduled) pairs.emplace_back(request, tokens);
  return pairs;
}

std::string text_of(const Pairs& scheduled, const std::vector<std::int64_t>& preempted,
                    const std::vector<std::int64_t>& finished, std::int64_t free_blocks) {
  std::string text;
  for (const auto& [request, tokens] : scheduled) text += fmt::format(" {}+{}", request, tokens);
  text += fmt::format("; preempted {}; finished {}", fmt::join(preempted, " "),
                      fmt::join(finished, " "));
  return free_blocks < 0 ? text : text + fmt::format("; {} free", free_blocks);
}

void expect_same_steps(const LoggedRun& run) {
  const Json& log = run.json["log"];
  Driver driver = run.driver();
  const Json& c = run.json["case"];
  driver.depth = c.value("async_scheduling", false) ? 2 : c.value("pipeline_parallel_size", 1);
  driver.queues_empty_steps = driver.depth > 1;
  std::vector<std::size_t> verified(run.requests.size(), 0);
  driver.accepts = [&](const BatchItem& item) -> std::int64_t {
    if (item.drafts == 0) return 0;
    const auto request = static_cast<std::size_t>(item.request);
    const auto& pattern = run.accept_patterns[request];
    return std::min(item.drafts, pattern.at(verified[request]++ % pattern.size()));
  };
  driver.drafts = [&](const BatchItem& item) -> std::int64_t {
    const auto request = static_cast<std::size_t>(item.request);
    const auto& pattern = run.draft_patterns[request];
    return pattern.empty() ? -1 : pattern.at(verified[request] % pattern.size());
  };
  const std::int64_t last = log.back()[0];
  std::size_t next = 0;
  Pairs repeated;
  while (driver.step() <= last) {
    const StepRecord step = driver.advance();
    if (next < log.size() && log[next][0] < step.step) {
      FAIL() << "vLLM has a step " << log[next][0] << ", ours is " << step.step;
    }
    if (next == log.size() || log[next][0] > step.step) {  // not listed: repeats the one before
      ASSERT_EQ(text_of(pairs_of(step), step.preempted, step.finished, -1),
                text_of(repeated, {}, {}, -1))
          << "step " << step.step;
      continue;
    }
    const Json& row = log[next++];
    const Json events = row.size() > 3 ? row[3] : Json::object();
    const auto ids = [&](const char* name) {
      return events.value(name, std::vector<std::int64_t>{});
    };
    repeated = pairs_of(row[1]);
    ASSERT_EQ(text_of(pairs_of(step), step.preempted, step.finished, step.free_blocks),
              text_of(repeated, ids("preempted"), ids("finished"), row[2]))
        << "step " << step.step;
  }
  EXPECT_EQ(next, log.size());
  EXPECT_EQ(driver.scheduler().num_unfinished(), 0u);
}

TEST(VllmFixture, EveryStepIsTheLoggedOne) {
  const Json file =
      read_json_file(TESSERA_SOURCE_DIR "/tests/reference/scheduler/vllm_v1_steps.json");
  std::map<std::string, int> left_out;
  int num_compared = 0;
  for (const Json& json : file["runs"]) {
    if (const std::string why = why_not(json); !why.empty()) {
      ++left_out[why];
      continue;
    }
    SCOPED_TRACE(json["name"].get<std::string>());
    expect_same_steps(LoggedRun(json));
    ++num_compared;
  }
  for (const auto& [why, count] : left_out) {
    fmt::print("{} runs left out: {}\n", count, why);
  }
  EXPECT_EQ(num_compared, 77);  // of 113
}

}  // namespace
}  // namespace tessera::serving::vllm_fixture_test
