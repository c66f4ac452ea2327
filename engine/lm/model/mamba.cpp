#include <algorithm>
#include <cmath>
#include <utility>

#include "short_convolution.h"
#include "state_mixer.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {
namespace {

class MambaMixer final : public StateMixer {
 public:
  MambaMixer(const Mamba& mamba, StateWeights weights)
      : mamba_(mamba), weights_(std::move(weights)) {}

  std::int64_t columns() const override { return mamba_.columns(); }
  std::int64_t outputs() const override { return mamba_.outputs(); }

  void run(Rows2d in, float* state, Rows2d out, const MixerTools& tools) const override {
    const std::int64_t inner = mamba_.inner, made = mamba_.rank + 2 * mamba_.state;
    std::vector<float> mixed(static_cast<std::size_t>(in.rows * inner)), steps(mixed.size());
    std::vector<float> inputs(static_cast<std::size_t>(in.rows * made));
    convolution_of(weights_, inner, mamba_.kernel, state)
        .take_rows(in, mixed.data(), tools.num_threads);
    // The step, B and C of each token, then a step of each channel.
    const Rows2d x{mixed.data(), in.rows, inner, inner};
    const Rows2d low{inputs.data(), in.rows, mamba_.rank, made};
    if (tools.see) tools.see(0, x);
    tools.inner[0]->apply(x.data, inner, in.rows, inputs.data(), made, tools.num_threads);
    if (mamba_.normed) {
      for (std::int64_t row = 0; row < in.rows; ++row) norm_inputs(inputs.data() + row * made);
    }
    if (tools.see) tools.see(1, low);
    tools.inner[1]->apply(low.data, made, in.rows, steps.data(), inner, tools.num_threads);
    float* states = state + mamba_.counts().kept_inputs();
    kernels::for_slices(tools.num_threads, inner, kSliceChannels,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t channel = first; channel < last; ++channel)
                            run_channel(channel, in, mixed, steps, inputs, states, out);
                        });
  }

 private:
  void norm_inputs(float* made) const {
    norm(weights_.step_norm, made);
    norm(weights_.b_norm, made + mamba_.rank);
    norm(weights_.c_norm, made + mamba_.rank + mamba_.state);
  }

  void norm(const std::vector<float>& weight, float* x) const {
    const float factor = rms_factor(x, std::ssize(weight), weights_.epsilon);
    for (std::size_t i = 0; i < weight.size(); ++i) x[i] *= factor * weight[i];
  }

  void run_channel(std::int64_t channel, Rows2d in, const std::vector<float>& mixed,
                   const std::vector<float>& steps, const std::vector<float>& inputs, float* states,
                   Rows2d out) const {
    const std::int64_t inner = mamba_.inner, width = mamba_.state, rank = mamba_.rank;
    const auto at = static_cast<std::size_t>(channel);
    const float* decay = weights_.decay.data() + channel * width;
    float* own = states + channel * width;
    for (std::int64_t row = 0; row < in.rows; ++row) {
      const float x = mixed[static_cast<std::size_t>(row * inner) + at];
      const float step =
          softplus(steps[static_cast<std::size_t>(row * inner) + at] + weights_.step_bias[at]);
      const float* b = inputs.data() + row * (rank + 2 * width) + rank;
      const float* c = b + width;
      float sum = 0;
      for (std::int64_t n = 0; n < width; ++n) {
        own[n] = own[n] * std::exp(-decay[n] * step) + step * b[n] * x;
        sum += own[n] * c[n];
      }
      const float gate = in.data[row * in.stride + inner + channel];
      out.data[row * out.stride + channel] = (sum + weights_.skip[at] * x) * gate * sigmoid(gate);
    }
  }

  const Mamba mamba_;
  const StateWeights weights_;
};

}  // namespace

std::shared_ptr<const StateMixer> make_mixer(const Mamba& mamba, StateWeights weights) {
  return std::make_shared<MambaMixer>(mamba, std::move(weights));
}

}  // namespace tessera::lm
