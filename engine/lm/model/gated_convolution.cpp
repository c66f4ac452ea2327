#include <utility>

#include "short_convolution.h"
#include "state_mixer.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {
namespace {

class GatedConvolutionMixer final : public StateMixer {
 public:
  GatedConvolutionMixer(const GatedConvolution& net, StateWeights weights)
      : net_(net), weights_(std::move(weights)) {}

  std::int64_t columns() const override { return net_.columns(); }
  std::int64_t outputs() const override { return net_.outputs(); }

  void run(Rows2d in, float* state, Rows2d out, const MixerTools& tools) const override {
    ShortConvolution convolution = convolution_of(weights_, net_.channels, net_.kernel, state);
    convolution.activated = false;
    kernels::for_slices(tools.num_threads, net_.channels, kSliceChannels,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t row = 0; row < in.rows; ++row)
                            take(in.data + row * in.stride, convolution, first, last,
                                 out.data + row * out.stride);
                        });
  }

 private:
  void take(const float* in, const ShortConvolution& convolution, std::int64_t first,
            std::int64_t last, float* out) const {
    const float *before = in, *after = in + net_.channels, *x = in + 2 * net_.channels;
    for (std::int64_t c = first; c < last; ++c) {
      const float gated = before[c] * x[c];
      convolution.take(&gated, c, 1, out + c);
      out[c] *= after[c];
    }
  }

  const GatedConvolution net_;
  const StateWeights weights_;
};

}  // namespace

std::shared_ptr<const StateMixer> make_mixer(const GatedConvolution& net, StateWeights weights) {
  return std::make_shared<GatedConvolutionMixer>(net, std::move(weights));
}

}  // namespace tessera::lm
