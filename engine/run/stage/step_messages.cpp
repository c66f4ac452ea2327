#include "tessera/run/step_messages.h"

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::run {
namespace {

using kernels::Real;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
constexpr Nanoseconds kLongestTime = 1'000'000 * kSecond;

void check_range(std::int64_t value, std::int64_t least, std::int64_t most, const char* name) {
  if (value >= least && value <= most) return;
  refuse(ErrorCode::out_of_range, "message", "{} is {}, outside [{}, {}]", name, value, least,
         most);
}

void check_layers(std::int64_t first, std::int64_t last) {
  check_range(first, 0, kMostTokens, "first_layer");
  check_range(last, first, kMostTokens, "last_layer");
}

void put_times(BodyWriter& writer, const std::vector<StageTimes>& times) {
  writer.put_list(std::span(times));
}

std::vector<std::uint16_t> halves_of(const std::vector<float>& rows, Real dtype) {
  std::vector<std::uint16_t> halves(rows.size());
  const bool is_f16 = dtype == Real::f16;
  float largest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::isfinite(rows[i])) largest = std::max(largest, std::abs(rows[i]));
    halves[i] = is_f16 ? kernels::f32_to_f16(rows[i]) : kernels::f32_to_bf16(rows[i]);
  }
  constexpr float kLargestHalf = 65504;
  if (is_f16 && largest > kLargestHalf) {
    refuse(ErrorCode::out_of_range, "activation_dtype",
           "a hidden state of {:g} is beyond f16, which ends at {:g}; bf16 or f32 holds it",
           largest, kLargestHalf);
  }
  return halves;
}

std::vector<float> numbers_of(const std::vector<std::uint16_t>& halves, Real dtype) {
  std::vector<float> rows(halves.size());
  const bool is_f16 = dtype == Real::f16;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    rows[i] = is_f16 ? kernels::f16_to_f32(halves[i]) : kernels::bf16_to_f32(halves[i]);
  }
  return rows;
}

}  // namespace

std::vector<std::byte> body_of(const StepOrder& order) {
  BodyWriter writer;
  writer.put(order.least_time);
  writer.put(order.link_time);
  writer.put(std::uint64_t{order.items.size()});
  for (const StepItem& item : order.items) {
    writer.put(item.request);
    writer.put(item.tokens);
    writer.put(item.context_tokens);
    writer.put(item.draw);
    writer.put_list(std::span(item.token_ids));
    writer.put_list(std::span(item.block_table));
  }
  writer.put(std::uint64_t{order.samplers.size()});
  for (const NewSampler& sampler : order.samplers) {
    writer.put(sampler.request);
    writer.put(sampler.options.temperature);
    writer.put(sampler.options.top_k);
    writer.put(sampler.options.top_p);
    writer.put(sampler.options.repetition_penalty);
    writer.put(sampler.options.seed);
    writer.put_list(std::span(sampler.text));
  }
  writer.put_list(std::span(order.gone));
  return writer.take();
}

StepOrder step_order_of(const Message& message) {
  BodyReader reader(message.body, Kind::step);
  StepOrder order;
  order.least_time = reader.get<Nanoseconds>();
  order.link_time = reader.get<Nanoseconds>();
  check_range(order.least_time, 0, kLongestTime, "least_time");
  check_range(order.link_time, 0, kLongestTime, "link_time");
  order.items.resize(reader.length_of_list(48));
  for (StepItem& item : order.items) {
    item.request = reader.get<std::int64_t>();
    item.tokens = reader.get<std::int64_t>();
    item.context_tokens = reader.get<std::int64_t>();
    item.draw = reader.get<std::int64_t>();
    item.token_ids = reader.get_list<std::int32_t>();
    item.block_table = reader.get_list<std::int32_t>();
    check_range(item.tokens, 1, kMostTokens, "tokens");
    check_range(item.context_tokens, 0, kMostTokens, "context_tokens");
    check_range(item.draw, -1, kMostTokens, "draw");
  }
  order.samplers.resize(reader.length_of_list(56));
  for (NewSampler& sampler : order.samplers) {
    sampler.request = reader.get<std::int64_t>();
    sampler.options.temperature = reader.get<double>();
    sampler.options.top_k = reader.get<std::int64_t>();
    sampler.options.top_p = reader.get<double>();
    sampler.options.repetition_penalty = reader.get<double>();
    sampler.options.seed = reader.get<std::uint64_t>();
    sampler.text = reader.get_list<std::int32_t>();
  }
  order.gone = reader.get_list<std::int64_t>();
  reader.finish();
  return order;
}

std::vector<std::byte> body_of(const HiddenStates& hidden) {
  BodyWriter writer;
  writer.reserve(24 + hidden.times.size() * sizeof(StageTimes) +
                 static_cast<std::size_t>(hidden.sent_bytes()));
  put_times(writer, hidden.times);
  writer.put(static_cast<std::uint64_t>(hidden.dtype));
  if (hidden.dtype == Real::f32) {
    writer.put_list(std::span(hidden.rows));
  } else {
    const std::vector<std::uint16_t> halves = halves_of(hidden.rows, hidden.dtype);
    writer.put_list(std::span(halves));
  }
  return writer.take();
}

HiddenStates hidden_states_of(const Message& message) {
  BodyReader reader(message.body, Kind::hidden);
  HiddenStates hidden;
  hidden.times = reader.get_list<StageTimes>();
  const auto dtype = reader.get<std::uint64_t>();
  check_range(static_cast<std::int64_t>(std::min<std::uint64_t>(dtype, 3)), 0, 2, "dtype");
  hidden.dtype = static_cast<Real>(dtype);
  if (hidden.dtype == Real::f32) {
    hidden.rows = reader.get_list<float>();
  } else {
    hidden.rows = numbers_of(reader.get_list<std::uint16_t>(), hidden.dtype);
  }
  reader.finish();
  return hidden;
}

std::vector<std::byte> body_of(const HeadRows& heads) {
  BodyWriter writer;
  writer.reserve(24 + static_cast<std::size_t>(heads.sent_bytes()));
  writer.put(heads.sent);
  writer.put(heads.layer);
  writer.put_list(std::span(heads.rows));
  return writer.take();
}

HeadRows head_rows_of(const Message& message) {
  BodyReader reader(message.body, message.header.kind);
  HeadRows heads;
  heads.sent = reader.get<Nanoseconds>();
  heads.layer = reader.get<std::int64_t>();
  heads.rows = reader.get_list<float>();
  reader.finish();
  check_range(heads.layer, 0, kMostTokens, "layer");
  return heads;
}

std::vector<std::byte> body_of(const StepTokens& tokens) {
  BodyWriter writer;
  put_times(writer, tokens.times);
  writer.put_list(std::span(tokens.token_ids));
  return writer.take();
}

std::vector<std::byte> body_of(const GiveOrder& order) {
  BodyWriter writer;
  writer.put(order.after_step);
  writer.put_list(std::span(order.from));
  writer.put_list(std::span(order.to));
  writer.put(std::uint64_t{order.parts.size()});
  for (const GiveOrder::Part& part : order.parts) {
    writer.put(part.rank);
    writer.put(part.first_layer);
    writer.put(part.last_layer);
  }
  return writer.take();
}

GiveOrder give_order_of(const Message& message) {
  BodyReader reader(message.body, Kind::give);
  GiveOrder order;
  order.after_step = reader.get<std::int64_t>();
  order.from = reader.get_list<std::int32_t>();
  order.to = reader.get_list<std::int32_t>();
  order.parts.resize(reader.length_of_list(20));
  for (GiveOrder::Part& part : order.parts) {
    part.rank = reader.get<std::int32_t>();
    part.first_layer = reader.get<std::int64_t>();
    part.last_layer = reader.get<std::int64_t>();
    check_layers(part.first_layer, part.last_layer);
  }
  reader.finish();
  if (order.from.size() != order.to.size()) {
    refuse(ErrorCode::out_of_range, "message", "{} blocks are to become {}", order.from.size(),
           order.to.size());
  }
  return order;
}

std::vector<std::byte> body_of(const Blocks& blocks) {
  BodyWriter writer;
  writer.reserve(40 + blocks.blocks.size() * sizeof(std::int32_t) + blocks.data.size());
  writer.put(blocks.first_layer);
  writer.put(blocks.last_layer);
  writer.put(blocks.after_step);
  writer.put_list(std::span(blocks.blocks));
  writer.put_list(std::span(blocks.data));
  return writer.take();
}

Blocks blocks_of(const Message& message) {
  BodyReader reader(message.body, Kind::blocks);
  Blocks blocks;
  blocks.first_layer = reader.get<std::int64_t>();
  blocks.last_layer = reader.get<std::int64_t>();
  blocks.after_step = reader.get<std::int64_t>();
  check_layers(blocks.first_layer, blocks.last_layer);
  blocks.blocks = reader.get_list<std::int32_t>();
  blocks.data = reader.get_list<std::byte>();
  reader.finish();
  return blocks;
}

StepTokens step_tokens_of(const Message& message) {
  BodyReader reader(message.body, Kind::tokens);
  StepTokens tokens;
  tokens.times = reader.get_list<StageTimes>();
  tokens.token_ids = reader.get_list<std::int32_t>();
  reader.finish();
  return tokens;
}

}  // namespace tessera::run
