#include "tessera/run/step_messages.h"

#include "tessera/core/error.h"

namespace tessera::run {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
constexpr Nanoseconds kLongestTime = 1'000'000 * kSecond;

void check_range(std::int64_t value, std::int64_t least, std::int64_t most, const char* name) {
  if (value >= least && value <= most) return;
  refuse(ErrorCode::out_of_range, "message", "{} is {}, outside [{}, {}]", name, value, least,
         most);
}

void put_times(BodyWriter& writer, const std::vector<StageTimes>& times) {
  writer.put_list(std::span(times));
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
  writer.reserve(16 + hidden.times.size() * sizeof(StageTimes) + hidden.rows.size() * 4);
  put_times(writer, hidden.times);
  writer.put_list(std::span(hidden.rows));
  return writer.take();
}

HiddenStates hidden_states_of(const Message& message) {
  BodyReader reader(message.body, Kind::hidden);
  HiddenStates hidden;
  hidden.times = reader.get_list<StageTimes>();
  hidden.rows = reader.get_list<float>();
  reader.finish();
  return hidden;
}

std::vector<std::byte> body_of(const StepTokens& tokens) {
  BodyWriter writer;
  put_times(writer, tokens.times);
  writer.put_list(std::span(tokens.token_ids));
  return writer.take();
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
