#include "windows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tessera::lm::train {

Windows::Windows(const TrainRequest& request)
    : request_(request), rng_(static_cast<std::uint64_t>(request.seed)) {
  shuffle();
}

void Windows::shuffle() {
  const auto size = static_cast<std::int64_t>(request_.tokens.size());
  const std::int64_t length = request_.max_context_tokens;
  starts_.clear();
  const std::int64_t first = rng_.integer(0, std::min(length, size - length) - 1);
  for (std::int64_t at = first; at + length + 1 <= size; at += length) starts_.push_back(at);
  for (std::size_t i = starts_.size(); i > 1; --i) {
    std::swap(starts_[i - 1],
              starts_[static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(i) - 1))]);
  }
  used_ = 0;
}

at::Tensor Windows::next_batch() {
  const std::int64_t length = request_.max_context_tokens + 1;
  at::Tensor batch = at::empty({request_.batch_size, length}, at::kLong);
  auto* out = batch.data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < request_.batch_size; ++row, out += length) {
    if (used_ == starts_.size()) shuffle();
    std::copy_n(request_.tokens.begin() + starts_[used_++], length, out);
  }
  return batch;
}

at::Tensor all_windows(const std::vector<std::int32_t>& tokens, std::int64_t length) {
  const std::int64_t rows = static_cast<std::int64_t>(tokens.size()) / length;
  at::Tensor windows = at::empty({rows, length}, at::kLong);
  std::copy_n(tokens.begin(), rows * length, windows.data_ptr<std::int64_t>());
  return windows;
}

}  // namespace tessera::lm::train
