#include <cmath>
#include <utility>

#include "delta_rule.h"
#include "short_convolution.h"
#include "state_mixer.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {
namespace {

// What goes into a layer for the tokens of a step; steps and gates [tokens][width].
struct KimiInputs {
  Rows2d in;
  const std::vector<float>& steps;
  const std::vector<float>& gates;
};

class KimiHead {
 public:
  KimiHead(const KimiDelta& net, const StateWeights& weights, float* state, std::int64_t index)
      : net_(net),
        weights_(weights),
        state_(state),
        index_(index),
        query_(static_cast<std::size_t>(net.head_dim)),
        key_(query_.size()),
        value_(query_.size()),
        error_(query_.size()),
        decay_(query_.size()) {}

  void take(const KimiInputs& inputs, std::int64_t row, Rows2d all) {
    const std::int64_t dim = net_.head_dim, width = net_.width(), first = index_ * dim;
    const float* in = inputs.in.data + row * inputs.in.stride;
    convolve(in, first, query_);
    convolve(in, width + first, key_);
    convolve(in, 2 * width + first, value_);
    set_length(query_, 1 / std::sqrt(static_cast<float>(dim)));
    set_length(key_, 1);
    const auto own = static_cast<std::size_t>(row * width + first);
    const float rate = weights_.decay[static_cast<std::size_t>(index_)];
    for (std::size_t i = 0; i < decay_.size(); ++i) {
      const float bias = weights_.step_bias[static_cast<std::size_t>(first) + i];
      decay_[i] = std::exp(-rate * softplus(inputs.steps[own + i] + bias));
    }
    const float beta = sigmoid(in[net_.channels() + 2 * dim + index_]);
    float* matrix = state_ + net_.counts().kept_inputs() + first * dim;
    float* out = all.data + row * all.stride + first;
    take_delta(
        {query_, key_, value_.data(), beta},
        [&](std::int64_t i) { return decay_[static_cast<std::size_t>(i)]; }, matrix, error_, out);
    const float factor = rms_factor(out, dim, weights_.epsilon);
    for (std::size_t i = 0; i < weights_.norm.size(); ++i)
      out[i] *= factor * weights_.norm[i] * sigmoid(inputs.gates[own + i]);
  }

 private:
  void convolve(const float* in, std::int64_t first, std::vector<float>& out) {
    convolution_of(weights_, net_.channels(), net_.kernel, state_)
        .take(in + first, first, std::ssize(out), out.data());
  }

  const KimiDelta& net_;
  const StateWeights& weights_;
  float* state_;
  std::int64_t index_;
  std::vector<float> query_, key_, value_, error_, decay_;
};

class KimiDeltaMixer final : public StateMixer {
 public:
  KimiDeltaMixer(const KimiDelta& net, StateWeights weights)
      : net_(net), weights_(std::move(weights)) {}

  std::int64_t columns() const override { return net_.columns(); }
  std::int64_t outputs() const override { return net_.outputs(); }

  void run(Rows2d in, float* state, Rows2d out, const MixerTools& tools) const override {
    const std::vector<float> steps = made(0, in, tools), gates = made(1, in, tools);
    kernels::for_slices(tools.num_threads, net_.num_heads, 1,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t index = first; index < last; ++index) {
                            KimiHead head(net_, weights_, state, index);
                            for (std::int64_t row = 0; row < in.rows; ++row)
                              head.take({in, steps, gates}, row, out);
                          }
                        });
  }

 private:
  // Of the low rank, by a matrix between.
  std::vector<float> made(std::size_t which, Rows2d in, const MixerTools& tools) const {
    const Rows2d low =
        in.part(net_.channels() + static_cast<std::int64_t>(which) * net_.head_dim, net_.head_dim);
    std::vector<float> out(static_cast<std::size_t>(in.rows * net_.width()));
    if (tools.see) tools.see(which, low);
    tools.inner[which]->apply(low.data, low.stride, low.rows, out.data(), net_.width(),
                              tools.num_threads);
    return out;
  }

  const KimiDelta net_;
  const StateWeights weights_;
};

}  // namespace

std::shared_ptr<const StateMixer> make_mixer(const KimiDelta& net, StateWeights weights) {
  return std::make_shared<KimiDeltaMixer>(net, std::move(weights));
}

}  // namespace tessera::lm
