#include <algorithm>
#include <cmath>
#include <utility>

#include "short_convolution.h"
#include "state_mixer.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {
namespace {

class Mamba2Mixer final : public StateMixer {
 public:
  Mamba2Mixer(const Mamba2& mamba, StateWeights weights)
      : mamba_(mamba), weights_(std::move(weights)) {}

  std::int64_t columns() const override { return mamba_.columns(); }
  std::int64_t outputs() const override { return mamba_.inner(); }

  void run(Rows2d in, float* state, Rows2d out, const MixerTools& tools) const override {
    const std::int64_t channels = mamba_.channels();
    std::vector<float> mixed(static_cast<std::size_t>(in.rows * channels));
    convolution_of(weights_, channels, mamba_.kernel, state)
        .take_rows(in.part(mamba_.inner(), channels), mixed.data(), tools.num_threads);
    float* states = state + (mamba_.kernel - 1) * channels;
    kernels::for_slices(tools.num_threads, mamba_.num_heads, 1,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t head = first; head < last; ++head)
                            run_head(head, in, mixed, states, out);
                        });
    for (std::int64_t row = 0; row < in.rows; ++row)
      gate(in.data + row * in.stride, out.data + row * out.stride);
  }

 private:
  void run_head(std::int64_t head, Rows2d in, const std::vector<float>& mixed, float* states,
                Rows2d out) const {
    const std::int64_t width = mamba_.state, channels = mamba_.channels();
    const std::int64_t group = head / (mamba_.num_heads / mamba_.num_groups);
    const auto at = static_cast<std::size_t>(head);
    float* own = states + head * mamba_.head_dim * width;
    for (std::int64_t row = 0; row < in.rows; ++row) {
      const float* x = mixed.data() + row * channels + head * mamba_.head_dim;
      const float* b = mixed.data() + row * channels + mamba_.inner() + group * width;
      const float* c = b + mamba_.num_groups * width;
      float step = softplus(in.data[row * in.stride + mamba_.inner() + channels + head] +
                            weights_.step_bias[at]);
      step = std::clamp(step, mamba_.least_step, mamba_.most_step);
      const float decay = std::exp(-weights_.decay[at] * step);
      float* to = out.data + row * out.stride + head * mamba_.head_dim;
      for (std::int64_t d = 0; d < mamba_.head_dim; ++d) {
        float* kept = own + d * width;
        const float taken = step * x[d];
        float sum = 0;
        for (std::int64_t n = 0; n < width; ++n) {
          kept[n] = kept[n] * decay + taken * b[n];
          sum += kept[n] * c[n];
        }
        to[d] = sum + weights_.skip[at] * x[d];
      }
    }
  }

  void gate(const float* gates, float* out) const {
    const std::int64_t inner = mamba_.inner();
    const auto open = [&] {
      for (std::int64_t i = 0; i < inner; ++i) out[i] *= gates[i] * sigmoid(gates[i]);
    };
    if (!mamba_.gate_last) open();
    for (std::int64_t group = 0; group < mamba_.norm_groups; ++group) norm(group, out);
    if (mamba_.gate_last) open();
  }

  void norm(std::int64_t group, float* out) const {
    const std::int64_t width = mamba_.inner() / mamba_.norm_groups, first = group * width;
    const float factor = rms_factor(out + first, width, weights_.epsilon);
    for (std::int64_t i = first; i < first + width; ++i)
      out[i] *= factor * weights_.norm[static_cast<std::size_t>(i)];
  }

  const Mamba2 mamba_;
  const StateWeights weights_;
};

}  // namespace

std::shared_ptr<const StateMixer> make_mixer(const Mamba2& mamba, StateWeights weights) {
  return std::make_shared<Mamba2Mixer>(mamba, std::move(weights));
}

}  // namespace tessera::lm
