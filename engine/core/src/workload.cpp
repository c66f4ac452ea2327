#include "tessera/core/workload.h"

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

}  // namespace

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
  fields.finish();
  return workload;
}

}  // namespace tessera
