#include "tessera/core/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxTokens = 100'000'000;
constexpr std::int64_t kMaxBatch = 1'000'000;

/// A mean may be fractional; a pass works on whole tokens.
std::int64_t whole_tokens(double mean) { return static_cast<std::int64_t>(std::ceil(mean - 1e-6)); }

// A file that was edited in one place only.
void check_means(const Workload& said, const Workload& found, const std::string& path) {
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * b; };
  if (near(said.prompt_tokens, found.prompt_tokens) &&
      near(said.output_tokens, found.output_tokens) &&
      said.max_prompt_tokens == found.max_prompt_tokens &&
      said.max_output_tokens == found.max_output_tokens) {
    return;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: they have {} prompt and {} output tokens on average and at most {} "
                          "and {}, the fields beside them say {}, {}, {} and {}",
                          path, found.prompt_tokens, found.output_tokens, found.max_prompt_tokens,
                          found.max_output_tokens, said.prompt_tokens, said.output_tokens,
                          said.max_prompt_tokens, said.max_output_tokens),
              path);
}

}  // namespace

void Workload::set_trace(std::shared_ptr<const RequestTrace> requests) {
  prompt_tokens = requests->mean_prompt_tokens();
  output_tokens = requests->mean_output_tokens();
  max_prompt_tokens = requests->max_prompt_tokens();
  max_output_tokens = requests->max_output_tokens();
  trace = std::move(requests);
}

double Workload::mean_context_tokens() const {
  return trace != nullptr ? trace->mean_context_tokens() : prompt_tokens + output_tokens / 2;
}

std::int64_t Workload::num_chunks() const {
  if (!chunk_tokens) return 1;
  return std::max<std::int64_t>(1, ceil_div(whole_tokens(prompt_tokens), *chunk_tokens));
}

std::int64_t Workload::tokens_in_chunk(std::int64_t index) const {
  const std::int64_t prompt = whole_tokens(prompt_tokens);
  if (!chunk_tokens) return prompt;
  return std::min(*chunk_tokens, prompt - index * *chunk_tokens);
}

Json to_json(const Workload& workload) {
  Json json;
  if (!workload.name.empty()) json["name"] = workload.name;
  json["prompt_tokens"] = workload.prompt_tokens;
  json["output_tokens"] = workload.output_tokens;
  json["batch_size"] = workload.batch_size;
  json["max_prompt_tokens"] = workload.max_prompt_tokens;
  json["max_output_tokens"] = workload.max_output_tokens;
  if (workload.chunk_tokens) json["chunk_tokens"] = *workload.chunk_tokens;
  if (!workload.source.empty()) json["source"] = workload.source;
  if (workload.trace != nullptr) json["requests"] = to_text(*workload.trace);
  return json;
}

Workload workload_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Workload workload;
  workload.name = fields.text("name", "");
  workload.prompt_tokens = fields.number("prompt_tokens", 1, kMaxTokens);
  workload.output_tokens = fields.number("output_tokens", 1, kMaxTokens);
  workload.batch_size = fields.integer("batch_size", 1, kMaxBatch);
  const auto up = whole_tokens;
  workload.max_prompt_tokens = fields.integer("max_prompt_tokens", up(workload.prompt_tokens),
                                              kMaxTokens, up(workload.prompt_tokens));
  workload.max_output_tokens = fields.integer("max_output_tokens", up(workload.output_tokens),
                                              kMaxTokens, up(workload.output_tokens));
  if (fields.has("chunk_tokens"))
    workload.chunk_tokens = fields.integer("chunk_tokens", 1, kMaxTokens);
  workload.source = fields.text("source", "");
  if (fields.has("requests")) {
    const Workload said = workload;
    workload.set_trace(std::make_shared<RequestTrace>(
        requests_from_text(fields.text("requests"), fields.path_of("requests"))));
    check_means(said, workload, fields.path_of("requests"));
  }
  fields.finish();
  return workload;
}

}  // namespace tessera
