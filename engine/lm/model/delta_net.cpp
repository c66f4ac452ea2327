#include <cmath>
#include <utility>

#include "delta_rule.h"
#include "short_convolution.h"
#include "state_mixer.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {
namespace {

// One key head and the value heads that it serves: nothing of it is another's.
class Head {
 public:
  Head(const DeltaNet& net, const StateWeights& weights, float* state, std::int64_t index)
      : net_(net),
        weights_(weights),
        state_(state),
        index_(index),
        query_(static_cast<std::size_t>(net.key_dim)),
        key_(query_.size()),
        value_(static_cast<std::size_t>(net.value_dim)),
        seen_(value_.size()) {}

  void take(const float* in, float* out) {
    const std::int64_t width = net_.key_dim, group = net_.group(), heads = net_.num_value_heads;
    const std::int64_t keys = net_.num_key_heads * width;
    const std::int64_t q = index_ * width, k = keys + q;
    const float* own = in + index_ * 2 * (width + group * net_.value_dim);
    convolve(net_.by_head ? own : in + q, q, query_);
    convolve(net_.by_head ? own + width : in + k, k, key_);
    set_length(query_, 1 / std::sqrt(static_cast<float>(net_.key_dim)));
    set_length(key_, 1);
    const float* steps = in + net_.channels() + net_.values();
    for (std::int64_t i = 0; i < group; ++i) {
      const std::int64_t head = net_.value_head(index_, i);
      const std::int64_t first = head * net_.value_dim, v = 2 * keys + first;
      const float* values = own + 2 * width + i * net_.value_dim;
      convolve(net_.by_head ? values : in + v, v, value_);
      const float* b = steps + (net_.steps_by_head ? 2 * group * index_ + i : head);
      const float* a = b + (net_.steps_by_head ? group : heads);
      const auto at = static_cast<std::size_t>(head);
      const float decay = std::exp(-weights_.decay[at] * softplus(*a + weights_.step_bias[at]));
      float* matrix = state_ + (net_.kernel - 1) * net_.channels() + first * net_.key_dim;
      take_delta(
          {query_, key_, value_.data(), sigmoid(*b)}, [decay](std::int64_t) { return decay; },
          matrix, seen_, out + first);
      const float* gates =
          net_.by_head ? values + group * net_.value_dim : in + net_.channels() + first;
      gate(gates, out + first);
    }
  }

 private:
  void convolve(const float* in, std::int64_t first, std::vector<float>& out) {
    convolution_of(weights_, net_.channels(), net_.kernel, state_)
        .take(in, first, std::ssize(out), out.data());
  }

  void gate(const float* z, float* out) const {
    const float factor = rms_factor(out, net_.value_dim, weights_.epsilon);
    for (std::int64_t j = 0; j < net_.value_dim; ++j)
      out[j] *= factor * weights_.norm[static_cast<std::size_t>(j)] * z[j] * sigmoid(z[j]);
  }

  const DeltaNet& net_;
  const StateWeights& weights_;
  float* state_;
  std::int64_t index_;
  std::vector<float> query_, key_, value_, seen_;
};

class DeltaNetMixer final : public StateMixer {
 public:
  DeltaNetMixer(const DeltaNet& net, StateWeights weights)
      : net_(net), weights_(std::move(weights)) {}

  std::int64_t columns() const override { return net_.columns(); }
  std::int64_t outputs() const override { return net_.values(); }

  void run(Rows2d in, float* state, Rows2d out, const MixerTools& tools) const override {
    kernels::for_slices(tools.num_threads, net_.num_key_heads, 1,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t index = first; index < last; ++index) {
                            Head head(net_, weights_, state, index);
                            for (std::int64_t row = 0; row < in.rows; ++row)
                              head.take(in.data + row * in.stride, out.data + row * out.stride);
                          }
                        });
  }

 private:
  const DeltaNet net_;
  const StateWeights weights_;
};

}  // namespace

std::shared_ptr<const StateMixer> make_mixer(const DeltaNet& net, StateWeights weights) {
  return std::make_shared<DeltaNetMixer>(net, std::move(weights));
}

}  // namespace tessera::lm
