#include "tessera/core/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

void check_longest(std::int64_t longest, double mean, const std::string& path) {
  if (static_cast<double>(longest) >= mean - 1e-6) return;
  refuse(ErrorCode::out_of_range, path, "{} is below the mean of {} tokens", longest,
         format_number(mean));
}

// A file that was edited in one place only.
void check_trace(const Workload& said, const std::string& path) {
  Workload found;
  found.set_trace(said.trace);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * b; };
  if (near(said.prompt_tokens, found.prompt_tokens) &&
      near(said.output_tokens, found.output_tokens) &&
      said.max_prompt_tokens == found.max_prompt_tokens &&
      said.max_output_tokens == found.max_output_tokens) {
    return;
  }
  refuse(path,
         "they have {} prompt and {} output tokens on average and at most {} and {}, the fields "
         "beside them say {}, {}, {} and {}",
         found.prompt_tokens, found.output_tokens, found.max_prompt_tokens, found.max_output_tokens,
         said.prompt_tokens, said.output_tokens, said.max_prompt_tokens, said.max_output_tokens);
}

}  // namespace

// A mean may be fractional; a pass works on whole tokens.
std::int64_t whole_tokens(double mean) { return static_cast<std::int64_t>(std::ceil(mean - 1e-6)); }

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

std::optional<std::int64_t> Workload::num_requests() const {
  if (trace == nullptr) return std::nullopt;
  return static_cast<std::int64_t>(trace->requests.size());
}

std::optional<std::int64_t> Workload::num_left_out() const {
  if (trace == nullptr) return std::nullopt;
  return trace->num_left_out;
}

bool Workload::has_arrivals() const { return trace != nullptr && trace->has_arrivals; }

Json TraceText::write(const std::shared_ptr<const RequestTrace>& trace) {
  return trace == nullptr ? Json(nullptr) : Json(to_text(*trace));
}

std::shared_ptr<const RequestTrace> TraceText::read(const Json& json, const std::string& path,
                                                    const FieldSpec&) {
  return std::make_shared<RequestTrace>(requests_from_text(json_string(json, path), path));
}

void Fields<Workload>::check(const Workload& workload, const FieldPath& path) {
  if (workload.trace != nullptr) return check_trace(workload, path("requests"));
  check_longest(workload.max_prompt_tokens, workload.prompt_tokens, path("max_prompt_tokens"));
  check_longest(workload.max_output_tokens, workload.output_tokens, path("max_output_tokens"));
}

Json to_json(const Workload& workload) { return json_of(workload); }

Workload workload_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Workload workload;
  read_fields(fields, workload);
  fields.finish();
  if (!fields.has("max_prompt_tokens"))
    workload.max_prompt_tokens = whole_tokens(workload.prompt_tokens);
  if (!fields.has("max_output_tokens"))
    workload.max_output_tokens = whole_tokens(workload.output_tokens);
  check_record(workload, FieldPath{path});
  if (workload.trace != nullptr) workload.set_trace(workload.trace);
  return workload;
}

}  // namespace tessera
