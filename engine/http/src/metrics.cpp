#include "metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace tessera::http {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = std::vector<double>;

const Buckets kFirstToken{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
const Buckets kPerToken{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                        0.3,   0.4,    0.5,   0.75, 1,     2.5,  5,     7.5, 10,   20};
const Buckets kRequest{0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240};
const Buckets kTokens{1,    2,    5,    10,    20,    50,    100,    200,   500,
                      1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
const Buckets kStep{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kCount{1, 2, 5, 10, 20, 50, 100, 128};

constexpr std::array kReasons{"stop", "length", "abort", "error"};  // as Finished has them

}  // namespace

class Metrics::Registry {
 public:
  explicit Registry(std::string model_name) : labels_{{"model_name", std::move(model_name)}} {}

  Counter& counter(const std::string& name, const std::string& help,
                   std::map<std::string, std::string> more = {}) {
    more.merge(std::map(labels_));
    return prometheus::BuildCounter().Name(name).Help(help).Register(all_).Add(more);
  }
  Gauge& gauge(const std::string& name, const std::string& help,
               std::map<std::string, std::string> more = {}) {
    more.merge(std::map(labels_));
    return prometheus::BuildGauge().Name(name).Help(help).Register(all_).Add(more);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(all_).Add(labels_, buckets);
  }
  std::string text() { return prometheus::TextSerializer().Serialize(all_.Collect()); }

 private:
  std::map<std::string, std::string> labels_;
  prometheus::Registry all_;

 public:
  Gauge& running = gauge("vllm:num_requests_running", "Requests that have a seat.");
  Gauge& waiting = gauge("vllm:num_requests_waiting", "Requests in the queue.");
  Gauge& kv_usage = gauge("vllm:kv_cache_usage_perc", "Share of KV blocks held. 1 is all.");
  Counter& prefix_queries =
      counter("vllm:prefix_cache_queries_total", "Tokens of prompts looked up in the cache.");
  Counter& prefix_hits = counter("vllm:prefix_cache_hits_total", "Tokens that were found.");
  Counter& preemptions = counter("vllm:num_preemptions_total", "Requests preempted.");
  Counter& prompt_tokens = counter("vllm:prompt_tokens_total", "Tokens of prompts.");
  Counter& generated = counter("vllm:generation_tokens_total", "Tokens generated.");
  Counter& drafts = counter("vllm:spec_decode_num_drafts_total", "Times that tokens were drafted.");
  Counter& drafted = counter("vllm:spec_decode_num_draft_tokens_total", "Tokens drafted.");
  Counter& accepted = counter("vllm:spec_decode_num_accepted_tokens_total", "Drafts that passed.");
  std::array<Counter*, kReasons.size()> success = [this] {
    std::array<Counter*, kReasons.size()> all{};
    for (std::size_t i = 0; i < kReasons.size(); ++i) {
      all[i] = &counter("vllm:request_success_total", "Requests that ended.",
                        {{"finished_reason", kReasons[i]}});
    }
    return all;
  }();
  Histogram& iteration =
      histogram("vllm:iteration_tokens_total", "Tokens that a step brought.", kStep);
  Histogram& request_prompt =
      histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", kTokens);
  Histogram& request_generated =
      histogram("vllm:request_generation_tokens", "Tokens generated for a request.", kTokens);
  Histogram& params_n = histogram("vllm:request_params_n", "Answers asked for.", kCount);
  Histogram& params_max =
      histogram("vllm:request_params_max_tokens", "Tokens asked for at most.", kTokens);
  Histogram& ttft =
      histogram("vllm:time_to_first_token_seconds", "Until the first token.", kFirstToken);
  Histogram& inter_token =
      histogram("vllm:inter_token_latency_seconds", "Between two tokens.", kPerToken);
  Histogram& per_token = histogram("vllm:request_time_per_output_token_seconds",
                                   "Mean of a request's tokens after the first.", kPerToken);
  Histogram& e2e = histogram("vllm:e2e_request_latency_seconds", "Until the answer.", kRequest);
  Histogram& queue =
      histogram("vllm:request_queue_time_seconds", "Until the first step.", kRequest);
  Histogram& prefill = histogram("vllm:request_prefill_time_seconds",
                                 "From the first step to the first token.", kRequest);
  Histogram& decode =
      histogram("vllm:request_decode_time_seconds", "From the first token to the last.", kRequest);
  Histogram& inference = histogram("vllm:request_inference_time_seconds",
                                   "From the first step to the last token.", kRequest);
  Counter& slow =
      counter("tessera:slow_readers_total", "Streams cut off as their client did not read them.");
};

Metrics::Metrics(const std::string& model_name, const serving::EngineOptions& engine,
                 std::int64_t kv_blocks)
    : registry_(std::make_unique<Registry>(model_name)) {
  registry_
      ->gauge("vllm:cache_config_info", "The KV cache.",
              {{"block_size", std::to_string(engine.block_size)},
               {"num_gpu_blocks", std::to_string(kv_blocks)},
               {"enable_prefix_caching", engine.enable_prefix_caching ? "True" : "False"}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::first_token(double ttft_s) {
  registry_->ttft.Observe(ttft_s);
  registry_->generated.Increment();
}

void Metrics::next_tokens(double gap_s, std::int64_t tokens) {
  for (std::int64_t i = 0; i < tokens; ++i)
    registry_->inter_token.Observe(gap_s / static_cast<double>(tokens));
  registry_->generated.Increment(static_cast<double>(tokens));
}

void Metrics::step_tokens(std::int64_t tokens) {
  registry_->iteration.Observe(static_cast<double>(tokens));
}

void Metrics::ended(Finished how, const Times& times, double e2e_s, double per_token_s,
                    std::int64_t prompt_tokens, std::int64_t generated, std::int64_t n,
                    std::int64_t max_tokens) {
  Registry& r = *registry_;
  r.success[static_cast<std::size_t>(how)]->Increment();
  r.prompt_tokens.Increment(static_cast<double>(prompt_tokens));
  r.request_prompt.Observe(static_cast<double>(prompt_tokens));
  r.request_generated.Observe(static_cast<double>(generated));
  r.params_n.Observe(static_cast<double>(n));
  r.params_max.Observe(static_cast<double>(max_tokens));
  r.e2e.Observe(e2e_s);
  const auto observe = [](Histogram& histogram, double value) {
    if (value >= 0) histogram.Observe(value);
  };
  observe(r.queue, times.queue_s);
  observe(r.prefill, times.prefill_s);
  observe(r.decode, times.decode_s);
  observe(r.inference, times.inference_s);
  observe(r.per_token, per_token_s);
}

void Metrics::too_slow() { registry_->slow.Increment(); }

std::string Metrics::text(const EngineState& engine) {
  Registry& r = *registry_;
  r.running.Set(static_cast<double>(engine.num_running));
  r.waiting.Set(static_cast<double>(engine.num_waiting));
  r.kv_usage.Set(static_cast<double>(engine.used_blocks) /
                 static_cast<double>(std::max<std::int64_t>(engine.kv_blocks, 1)));
  const auto raise = [](Counter& counter, std::int64_t to) {
    counter.Increment(std::max(0.0, static_cast<double>(to) - counter.Value()));
  };
  raise(r.prefix_queries, engine.counts.prefix_queries);
  raise(r.prefix_hits, engine.counts.prefix_hits);
  raise(r.preemptions, engine.counts.num_preemptions);
  raise(r.drafts, engine.num_drafts);
  raise(r.drafted, engine.drafted);
  raise(r.accepted, engine.accepted);
  return r.text();
}

}  // namespace tessera::http
