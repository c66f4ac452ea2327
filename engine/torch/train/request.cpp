#include "request.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm::train {
namespace {

void check_range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return;
  refuse(ErrorCode::out_of_range, name, "{} is outside [{}, {}]", value, low, high);
}

/// Written so that what is no number is refused too.
void check_real(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return;
  refuse(ErrorCode::out_of_range, name, "{} is outside [{}, {}]", value, low, high);
}

void check_tokens(std::string_view name, const std::vector<std::int32_t>& tokens,
                  std::int64_t vocab_size) {
  const auto strange = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
    return token < 0 || token >= vocab_size;
  });
  if (strange == tokens.end()) return;
  refuse(name, "token {} at {} is outside [0, {}), the vocabulary", *strange,
         strange - tokens.begin(), vocab_size);
}

void check_shape(const TrainRequest& r) {
  check_range("num_layers", r.num_layers, 1, 1000);
  check_range("hidden_size", r.hidden_size, 1, 1 << 14);
  check_range("num_heads", r.num_heads, 1, r.hidden_size);
  if (r.hidden_size % r.num_heads != 0) {
    refuse("hidden_size", "{} is no multiple of num_heads, {}", r.hidden_size, r.num_heads);
  }
  check_range("ffn_size", r.ffn_size, 1, 1 << 16);
  check_range("vocab_size", r.vocab_size, 2, 1 << 20);
  check_range("max_context_tokens", r.max_context_tokens, 2, 1 << 14);
  for (const auto& [name, token] : {std::pair{"bos_token", r.bos_token},
                                    {"eos_token", r.eos_token},
                                    {"pad_token", r.pad_token}}) {
    check_range(name, token, 0, r.vocab_size - 1);
  }
}

void check_schedule(const TrainRequest& r) {
  check_range("num_threads", r.num_threads, 1, 1024);
  check_range("num_steps", r.num_steps, 1, 1 << 30);
  check_range("batch_size", r.batch_size, 1, 1 << 16);
  if (r.batch_size % r.num_threads != 0) {
    refuse("batch_size", "{} is no multiple of num_threads, {}", r.batch_size, r.num_threads);
  }
  check_range("warmup_steps", r.warmup_steps, 0, r.num_steps);
  check_range("decay_steps", r.decay_steps.value_or(0), 0, r.num_steps - r.warmup_steps);
  check_range("report_every", r.report_every, 1, 1 << 30);
  check_real("peak_learning_rate", r.peak_learning_rate, 0, 10);
  check_real("final_learning_rate_ratio", r.final_learning_rate_ratio, 0, 1);
  check_real("weight_decay", r.weight_decay, 0, 10);
  check_real("max_gradient_norm", r.max_gradient_norm, 1e-9, 1e9);
}

}  // namespace

void check(const TrainRequest& r) {
  if (r.out.empty()) refuse("out", "is empty; it names the folder to write");
  std::error_code ignored;
  if (std::filesystem::exists(r.out, ignored)) {
    refuse("out", "{} is there already; name another folder or remove it", quote(r.out, 300));
  }
  check_shape(r);
  check_schedule(r);
  if (static_cast<std::int64_t>(r.tokens.size()) <= r.max_context_tokens) {
    refuse("tokens", "{} of them make no window of max_context_tokens + 1 = {}", r.tokens.size(),
           r.max_context_tokens + 1);
  }
  check_tokens("tokens", r.tokens, r.vocab_size);
  check_tokens("held_out_tokens", r.held_out_tokens, r.vocab_size);
  check_range("outlier_channels", r.outlier_channels, 0, r.hidden_size);
  check_real("outlier_scale", r.outlier_scale, 1, 1024);
  check_real("outlier_shift", r.outlier_shift, 0, 1024);
}

}  // namespace tessera::lm::train
